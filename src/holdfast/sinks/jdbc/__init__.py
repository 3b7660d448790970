"""Sinks in MariaDB and PostgreSQL, through Spark's JDBC writer.

sink.py        the sinks: Spark stages the rows, one transaction of the driver moves them
rows.py        the move: what is checked before, the statements, what is counted after
ledger.py      the ledger, in plain SQL
session.py     the driver's session: alive, and the same for a whole transaction
connection.py  JDBC connections, and what their errors mean
address.py     where the database is, and how to log in
columns.py     do the rows fit the table, and how is each column moved?
dialect.py     what differs between the databases
mariadb.py     MariaDB
postgresql.py  PostgreSQL
"""

from holdfast.sinks.jdbc.sink import JdbcSink

__all__ = ["JdbcSink"]
