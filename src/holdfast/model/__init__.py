"""The nouns that flow between the stages: frozen values, no behaviour beyond their own meaning.

ids.py            names of things, each a type of its own; spans of ids
json.py           JSON as a type, and its canonical text
version.py        the version of holdfast
fact.py           a fact with its source; what is unknown or unreadable, and why
definition.py     what a user declares: sources, sinks, triggers, jobs
batch.py          a batch, who writes it, and what a sink remembers of it
ends.py           where a batch ended, source by source
lease.py          who runs a job
checkpoint.py     the files of a checkpoint, one noun per format
offsets.py        an entry of the offset log
source_offset.py  source offsets by kind
state.py          state operators and stores
events.py         what happened to a query
evidence.py       everything that was observed of a checkpoint
surroundings.py   what was looked up around it
fingerprint.py    what a query is, as far as a restart cares
spark_version.py  versions of Spark, and ranges of them
restart.py        what a restart will do
finding.py        findings, what was not assessed, and the verdict
verdict.py        how a checkpoint stands, in one sentence
advice.py         advice that several errors and findings give
explanation.py    what a code means
"""
