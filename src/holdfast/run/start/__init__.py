"""May these jobs run, and by this driver? Needs no Spark.

admission.py   steps 1 to 3 of a start
locations.py   step 1: where checkpoints and records lie
lease.py       step 3: one live driver per job
continuity.py  does the offset log continue where the sink ended?
preflight.py   what `holdfast diagnose` and `holdfast check` say about this start
"""
