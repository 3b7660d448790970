"""Stage 2: storage, run records, event logs and sink ledgers -> Evidence. Reads only.

looking.py      a location -> a checkpoint, a folder of checkpoints, or why neither
recognise.py    is a folder a checkpoint, and if not, what does it look like?
search.py       a folder -> the checkpoints below it, and what was not searched
evidence.py     one checkpoint -> Evidence: all that follows, put together
facts.py        what was seen -> the nine facts, each with the files that say so
tree.py         the listing, folded: which files there are, and what their names say
folds.py        what they are folded into: a log, a source, a state store
spans.py        many ids in little memory
pieces.py       what storage answered -> what the bytes say
progress.py     offset log and commit log: the tail that is read
timeline.py     one line a batch
restarts.py     signs of restarts that nothing has recorded
state.py        stateful operators, and what can be restored
stores.py       their stores, as far as the logs let files count
state_facts.py  what is told of them among the nine facts
showable.py     rows of state that are asked for: which batch, or why there are none
leaves.py       which source a line of the offset log is of: its folder, its description
source_logs.py  the logs that file sources keep, as far as a start reads them
origins.py      sources: where they stand, where they began
source_files.py which files a file source took between two log offsets
details.py      one batch, or what lies between two
runs.py         run records and the lease beside the checkpoint
processes.py    whether the process that holds the lease still runs
event_logs.py   Spark's event logs, plain, compressed or rolling
codecs.py       the framings that event logs are compressed with
history.py      events of runs -> told.py, what they say of the query
ledgers.py      what the sink remembers
surroundings.py what lies around a checkpoint: storage, neighbours, what the sources still have
landing.py      landing folders, beside the logs of what was read
topics.py       what a Kafka cluster still has, and its ids
"""
