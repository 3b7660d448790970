"""PostgreSQL sinks: the rows and the ledger in one transaction of the server.

table.py     how a batch is written: the steps, and what dies where
ledger.py    what the ledger says, and how it is read and changed
connect.py   connections, passwords, and what the server's errors mean
columns.py   Spark's types and the table's columns -> how each is written
encode.py    Arrow -> the bytes of binary COPY
staging.py   what executors write before the transaction
append.py    the append sink
upsert.py    the upsert sink
upsert_statements.py   the statements of an upsert
look.py      the ledger, for who only looks
numeric.py   decimals as PostgreSQL's numeric
"""

from holdfast.sinks.postgres.append import PostgresAppendSink as PostgresAppendSink
from holdfast.sinks.postgres.upsert import PostgresUpsertSink as PostgresUpsertSink
