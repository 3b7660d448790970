"""Delta sinks: the rows and the ledger in one commit of the table's transaction log.

ledger.py    what the commit says of the batch, and how it is read back
table.py     opening, creating and fencing a table; which engine may commit to it
log.py       the end of the log: following it, and adding a commit
parquet.py   rows -> files of the table
stats.py     Parquet footers -> statistics for data skipping
append.py    the append sink
merge.py     the merge sink
"""

from holdfast.sinks.delta.append import DeltaAppendSink as DeltaAppendSink
from holdfast.sinks.delta.merge import DeltaMergeSink as DeltaMergeSink
