"""Stage 3: one question a file about a query that is to start from an old checkpoint.

`asked` compares the query to come with the checkpoint itself, and with the query that last ran
where a run record tells it. Rules know no other rule; what several changes amount to is for
`check.py` to say.

sources.py      does it read the same things, in the same order?
topics.py       are Kafka's cluster and topics those that the offsets are of?
options.py      are the sources read in the same way?
watermarks.py   are the watermarks the same?
operators.py    are the stateful operators the same, in the same order?
keys.py         is the state found by the same keys?
aggregates.py   does it hold the same aggregates?
joins.py        do joins keep and match the same rows?
arbitrary.py    is state of the user's own making the same?
steps.py        do the same rows reach the state and the sink?
functions.py    are the Python functions the same?
sinks.py        do the same sinks get the same kind of output?
settings.py     are the settings the same?
versions.py     is it the same Spark?
"""
