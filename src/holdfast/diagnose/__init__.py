"""What the evidence means: Evidence and Restart -> Findings and a verdict. Pure.

diagnosis.py       `holdfast diagnose`: evaluate every rule, order the findings, give a verdict
rules/             one question per file about a checkpoint
check.py           `holdfast check`: evaluate every change rule
changes/           one question per file about a query that is to start from an old checkpoint
locations.py       may these jobs use these checkpoint locations?
kafka_identity.py  do the Kafka cluster and its topics still belong to the offsets?
explanations/      the meaning of every code
"""
