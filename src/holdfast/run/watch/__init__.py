"""Running queries: follow, restart, stop, record.

driver.py       all jobs of a run
batches_run.py  which batches a query ran
listener.py     Spark's events -> run records
records.py      run records on disk
"""
