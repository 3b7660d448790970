"""Stateful operators and their stores.

operators.py         the folder `state` -> operators, and what can be restored
stores.py            the files of state stores, as far as the logs let them count
snapshots.py         RocksDB snapshots: row counts, and whether they can be loaded
descriptions.py      operator metadata and state schemas
summary.py           what the nine facts say about operators
readable_batches.py  which batch of state can be shown, or why none
"""
