"""What is recorded about a query: runs, event logs, the lease, ledgers.

runs.py         run records and the lease beside a checkpoint
processes.py    is the process that holds the lease still running?
event_logs.py   Spark event logs: plain, compressed or rolling
codecs.py       the compressions of event logs
events.py       events of runs -> query_facts.py
query_facts.py  what the events say about the query
ledgers.py      the last batch in the ledger of each sink
"""
