"""Stateful operators and their stores.

operators.py         the folder `state` -> operators, and which batches can be restored
stores.py            the files of state stores that count, according to the logs
snapshots.py         RocksDB snapshots: row counts, and whether they can be loaded
descriptions.py      operator metadata and state schemas
summary.py           what the nine facts say about operators
readable_batches.py  the batch whose state can be read, or why there is none
"""
