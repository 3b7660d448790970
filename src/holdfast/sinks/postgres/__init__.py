"""PostgreSQL sinks: the rows and the ledger in one transaction of the server.

append.py             the append sink
upsert.py             the upsert sink
upsert_statements.py  its statements
table.py              how a batch is written: the steps, and what a crash leaves
ledger.py             the ledger
look.py               read the ledger only, for `holdfast diagnose`
connect.py            connections, passwords, and what the server's errors mean
columns.py            do the rows fit the table, and how is each column written?
encode.py             Arrow -> the bytes of binary COPY
numeric.py            numbers -> the binary `numeric`
staging.py            what executors write before the transaction
"""

from holdfast.sinks.postgres.append import PostgresAppendSink as PostgresAppendSink
from holdfast.sinks.postgres.upsert import PostgresUpsertSink as PostgresUpsertSink
