"""Storage, run records, event logs and ledgers -> Evidence. Reads only, judges nothing.

evidence.py      one checkpoint -> Evidence: everything below, put together
facts.py         the nine facts, each with the files that say so
batch_detail.py  one batch, or the range between two
locate/          a location -> a checkpoint, a folder of checkpoints, or why neither
inventory/       the listing of a checkpoint, summarised as it streams
logs/            the offset log and the commit log
sources/         sources: their folders, logs and positions
state/           stateful operators and their stores
history/         run records, event logs, the lease, and the ledgers of sinks
around/          what is around a checkpoint: storage, copies, landing folders, Kafka
"""
