"""A location that the user names -> a checkpoint, a folder of checkpoints, or why neither.

resolve.py    open the location and decide what it is
recognise.py  is a folder a checkpoint, and if not, what does it look like?
search.py     the checkpoints below a folder
many.py       collect the evidence of many checkpoints at once
"""
