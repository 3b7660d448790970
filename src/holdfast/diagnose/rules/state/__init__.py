"""State stores and operators.

stores.py          can the state be loaded?
descriptions.py    can Spark read the schemas and the metadata of operators?
misplaced.py       was state deleted without a trace, or put where Spark does not look?
batch_progress.py  how far did a pending batch come, by the state that it left?
rewritten.py       was state written after its batch was committed?
hazards.py         does a known bug of this Spark threaten the state?
"""
