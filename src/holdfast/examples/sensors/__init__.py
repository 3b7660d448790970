"""A pipeline of three jobs, and a demo that kills its driver repeatedly.

The jobs are `sensor-raw-ingest`, `sensor-deserialize` and `sensor-merge-gold`.

pipeline.py   the three jobs
stages.py     what each job does with its rows
simulator.py  sensors that send late, twice, and sometimes garbage
sender.py     a thread that sends the messages
landing.py    messages -> files in a landing folder, or a Kafka topic
driver.py     the process that runs the pipeline, and its progress
demo.py       send, kill, restart, reconcile
reconcile.py  compare every table with what was sent
"""
