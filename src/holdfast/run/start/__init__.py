"""Steps 1 to 3 of a start (`run/order.py`): may this driver run these jobs? Needs no Spark.

admission.py   steps 2 and 3: read the ledgers, take the lease
locations.py   step 1: where checkpoints and records lie
lease.py       step 3: one live driver per job
continuity.py  does the offset log continue where the sink ended?
preflight.py   what `holdfast diagnose` and `holdfast check` say about this start
"""
