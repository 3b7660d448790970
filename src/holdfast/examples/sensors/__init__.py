"""`sensor-raw-ingest` -> `sensor-deserialize` -> `sensor-merge-gold`, and the demo that kills them.

pipeline.py   the three jobs
stages.py     what each job does to its rows
simulator.py  sensors that send late, twice, and sometimes garbage
sender.py     a process that sends
landing.py    messages -> files in a landing folder
driver.py     a process that runs the pipeline
demo.py       send, kill, restart, reconcile
reconcile.py  compare every table with what was sent
"""
