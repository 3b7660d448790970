"""One job -> one streaming query; one batch -> every sink.

stream.py         build and start the query; write each batch to its outputs
batch.py          the offset log -> a Batch with its range and digest
own_offsets.py    the offsets of the running query itself
fingerprint.py    the plan of a query -> its fingerprint, for the next start to compare
function_code.py  Python functions -> a digest of their code
processors.py     the state variables of a `transformWithState` processor
kafka_ids.py      the ids of Kafka clusters and topics
check.py          may a query start from an old checkpoint? starts nothing
failure.py        a failed query -> one sentence, and whether a restart can cure the failure
"""
