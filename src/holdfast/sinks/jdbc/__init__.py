"""Sinks in any database that Spark can write through JDBC."""

from holdfast.sinks.jdbc.sink import JdbcSink

__all__ = ["JdbcSink"]
