"""What Spark will do with a checkpoint: Evidence -> Restart. Pure.

The checks run in the order in which Spark does them.

restart.py                the whole restart: which batch runs, over which range, to which end
candidates.py             which Spark will start the query
next_batch.py             which batch runs next, and between which offset entries
source_ranges.py          what the next batch reads of each source
start_errors.py           what stops Spark before the first batch, in the order of its checks
source_errors.py          errors that the logs and offsets of sources cause
source_log.py             what a start reads in the log of a file source
foreign_offsets.py        offset lines that their source cannot read
offset_spelling.py        offsets that are written as Spark never writes them
kafka_ranges.py           the Kafka partitions that a re-run batch fails on
sockets.py                queries that read only sockets
state_load.py             which version of the state each operator loads, and whether it exists
state_errors.py           errors that the state causes
operator_descriptions.py  which descriptions of operators a start needs and cannot read
sink_answer.py            what each sink does with the next batch
continuous.py             starts in continuous mode
empty_batch.py            whether a pending batch has any rows
unread_files.py           files that a start reads and holdfast could not
"""
