"""One job -> one streaming query; one batch -> every sink.

stream.py       build and start the query; write each batch to its outputs
batch.py        the offset log -> a Batch with its range and digest
own_offsets.py  the offsets of the running query itself
fingerprint.py  the plan of a query -> what a restart cares about
processors.py   the state variables of a `transformWithState` processor
kafka_ids.py    the ids of Kafka clusters and topics
check.py        may a query start from an old checkpoint? starts nothing
failure.py      a failed query -> one sentence, and whether to try again
"""
