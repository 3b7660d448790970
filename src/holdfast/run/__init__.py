"""The data plane: jobs -> queries -> batches -> sinks, with one live driver per job.

pipeline.py    declare jobs
target.py      `MODULE[:PIPELINE]` -> the pipeline
order.py       the order of a start, in one function
start/         may these jobs run, and by this driver?
query/         one job -> one streaming query; one batch -> every sink
watch/         running queries: follow, restart, stop, record
session/       the Spark session: jars, settings, clock
once.py        the guarantee of a sink for the `foreachBatch` of an existing job
record.py      run records for any PySpark application
state.py       the rows of a state store, read with a Spark session of its own
state_copy.py  a temporary copy of a checkpoint, for Spark to read state from
"""
