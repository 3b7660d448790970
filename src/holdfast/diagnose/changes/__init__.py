"""One question per file about a query that is to start from an old checkpoint.

Rules do not know one another; `difference.py` and `schemas.py` are shared by all.

sources.py     does the query read the same sources, in the same order?
options.py     are the sources read in the same way?
topics.py      are the Kafka cluster and topics the ones that the offsets belong to?
operators.py   are the stateful operators the same, in the same order?
keys.py        is the state found by the same keys?
aggregates.py  does the state contain the same aggregates?
joins.py       do stream-stream joins keep and match the same rows?
arbitrary.py   is state of the user's own making the same?
variables.py   does a processor of `transformWithState` keep the same variables?
watermarks.py  are the watermarks the same?
steps.py       do the same rows reach the state, and the sink?
functions.py   are the Python functions the same?
sinks.py       do the same sinks get the same kind of output?
settings.py    are the settings the same?
versions.py    is it the same Spark?
difference.py  how a change is worded: one finding, with the old and the new
schemas.py     what the state schema files say about operators, as terms to compare
"""
