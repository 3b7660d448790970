"""Delta sinks: the rows and the ledger in one commit of the table's transaction log.

append.py          the append sink
merge.py           the merge sink: upsert by key, newest wins
ledgered.py        what both sinks share: a table with a ledger in it
ledger.py          what a commit says about its batch, and how it is read back
log.py             the end of the log: follow it, and commit to it
log_store.py       whether Spark's log store sees commits that holdfast makes beside it
fence.py           shut out older drivers by a commit
table.py           open and create a table; which engine may commit to it
requirements.py    what is refused about a table, before a batch is planned
schema.py          do the rows fit the table?
evolution.py       add columns to a table
layout.py          table properties -> how its files are written
executors.py       rows -> files, by Delta's own writer on the executors
parquet.py         collected rows -> files, by the driver; count the rows in files
partitions.py      the text of a partition value
stats.py           Parquet footers -> statistics for data skipping
newest.py          the row of each key that counts
survey.py          may the driver rewrite the files of this table?
merge_by_spark.py  a merge by Spark's MERGE
clone.py           a shallow clone that Spark merges into, where it must not commit
merged_rows.py     do the files of a merge contain the rows that it reports?
"""

from holdfast.sinks.delta.append import DeltaAppendSink as DeltaAppendSink
from holdfast.sinks.delta.ledger import make_app_id as make_app_id
from holdfast.sinks.delta.merge import DeltaMergeSink as DeltaMergeSink
