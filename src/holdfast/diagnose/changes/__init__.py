"""One question per file about a query that is to start from an old checkpoint.

Rules do not know one another; `difference.py` and `schemas.py` are shared by all.

sources.py     does the query read the same sources, in the same order?
options.py     are the sources read in the same way?
topics.py      do the Kafka cluster and its topics still belong to the offsets?
operators.py   are the stateful operators the same, in the same order?
keys.py        does the state have the same keys?
aggregates.py  does the state contain the same aggregates?
joins.py       do stream-stream joins keep and match the same rows?
arbitrary.py   is user-defined state the same?
variables.py   does a processor of `transformWithState` have the same variables?
watermarks.py  are the watermarks the same?
steps.py       do the same rows reach the state, and the sink?
functions.py   are the Python functions the same?
sinks.py       do the same sinks get the same kind of output?
settings.py    are the settings the same?
versions.py    is it the same Spark?
difference.py  how a change becomes a finding, with the old and the new value
schemas.py     the state schema files of a checkpoint, as terms to compare
"""
