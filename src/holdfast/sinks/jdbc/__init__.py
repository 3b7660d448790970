"""Sinks in MariaDB and PostgreSQL, through Spark's JDBC writer.

sink.py         how a batch is written: the steps, and what dies where
session.py      a connection that answers, and transactions that stay in one session
connection.py   one connection, and what the database's errors mean
ledger.py       what the ledger says, and how it is read and changed
rows.py         staged rows -> the job's table
columns.py      Spark's types and the table's columns -> how each is staged and moved
dialect.py      what the databases say differently
mariadb.py, postgresql.py   the two that are known
address.py      where a database is, and how to log in
"""

from holdfast.sinks.jdbc.sink import JdbcSink

__all__ = ["JdbcSink"]
