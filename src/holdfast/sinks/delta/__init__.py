"""Delta sinks: the rows and the ledger in one commit of the table's transaction log.

ledger.py    what the commit says of the batch, and how it is read back
table.py     opening, creating and fencing a table; which engine may commit to it
log.py       the end of the log: following it, and adding a commit
log_store.py whether Spark's log store sees commits that are made beside it
requirements.py what is refused about a table and rows before a batch is planned
layout.py    table properties -> how its files are written
parquet.py   collected rows -> files of the table; counting what the files hold
executors.py rows -> files of the table, by Delta's own writer
partitions.py the text of a partition value
stats.py     Parquet footers -> statistics for data skipping
evolution.py adding columns
append.py    the append sink
merge.py     the merge sink; newest.py says which row counts
survey.py    which tables the driver may merge into
merge_by_spark.py a merge by Spark's MERGE; clone.py, as on S3; merged_rows.py counts its rows
"""

from holdfast.sinks.delta.append import DeltaAppendSink as DeltaAppendSink
from holdfast.sinks.delta.ledger import make_app_id as make_app_id
from holdfast.sinks.delta.merge import DeltaMergeSink as DeltaMergeSink
