"""Sinks in MariaDB and PostgreSQL, through Spark's JDBC writer."""

from holdfast.sinks.jdbc.sink import JdbcSink

__all__ = ["JdbcSink"]
