"""The data plane's runner: jobs -> queries -> batches -> sinks, with one live driver a job.

pipeline.py   declaring jobs
target.py     `MODULE[:PIPELINE]`, as a user names it -> the pipeline
locations.py  where a job's checkpoint and records lie, and what is refused
lease.py      one live driver a job
admission.py  may these jobs run, and by this driver?
judging.py    what speaks against a start: the checkpoint, and the query beside it
fingerprint.py  the plan of a query -> what it is, as far as a restart cares
clusters.py   the ids of Kafka's clusters and topics, asked through the JVM
check.py      may a query start from an old checkpoint? starts nothing
state.py      rows of a state store, through a Spark of their own
apart.py      work with Spark that Ctrl-C ends
session.py    a Spark session with the settings and jars that holdfast chooses
batch.py      the offset log -> a Batch with its digest
query.py      one job -> one streaming query
batches_run.py  which batches a query has run
driver.py     all jobs of a run: start, watch, restart, stop
once.py       the same for one batch function of an existing job
records.py    what is remembered of every run
"""
