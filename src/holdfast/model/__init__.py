"""The nouns that the other packages pass to each other: frozen values with little behaviour.

ids.py            ids and names, one type each; spans of ids
json.py           JSON as a type, and its canonical text
version.py        the version of holdfast
fact.py           facts with the files that say so; Unknown and Unreadable with a reason
definition.py     what a user declares: sources, sinks, triggers, jobs
batch.py          a batch, its writer, and what a sink remembers of it
ends.py           the end offsets of a batch, by source
lease.py          the lease of the driver that runs a job
checkpoint.py     the files of a checkpoint, one noun per format
offsets.py        an entry of the offset log
source_offset.py  source offsets by kind
state.py          state operators and stores
events.py         starts, batches and ends of a query
evidence.py       everything that was read from a checkpoint
surroundings.py   the storage, the neighbours and the sources of a checkpoint
fingerprint.py    the parts of a query that matter to a restart
spark_version.py  versions of Spark, and ranges of them
restart.py        what a restart will do
finding.py        findings, open questions, and the judgement
verdict.py        the status of a checkpoint in one sentence
advice.py         advice that several errors and findings give
explanation.py    the explanation of a code
"""
