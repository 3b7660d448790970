"""The offset log, the commit log, and `metadata`.

identity.py      does the checkpoint know which query it belongs to?
damage.py        which files cannot be read, and does a start read them?
disagreement.py  do the two logs agree on which batches are done?
edited.py        does the offset log still say what the sinks and the runs recorded?
gaps.py          are entries missing inside a log?
pending.py       is a batch planned and not committed?
no_commits.py    is the whole commit log missing?
asynchronous.py  was asynchronous progress tracking turned off half way?
continuous.py    was it written in continuous mode, and what does a start with a trigger do?
checksums.py     are hidden checksums left of files that are gone?
"""
