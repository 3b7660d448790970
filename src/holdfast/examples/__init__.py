"""Runnable examples, and the servers that they need.

sensors/     the reference pipeline and its demo
broker.py    a real Kafka broker on this machine
database.py  a real PostgreSQL on this machine
"""
