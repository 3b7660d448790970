"""Which files a checkpoint has, and what their names say.

snapshot.py  list a checkpoint as of one moment, although a query may be running
tree.py      summarise the names as they stream
folders.py   the summaries: a log, a source, a state store
spans.py     many ids in little memory
read.py      bytes from storage -> decoded values
"""
