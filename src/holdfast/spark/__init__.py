"""What differs between versions of Spark. Pure; the only place to change for the next version.

versions.py          which versions are known, and which are predicted
pinned.py            the settings that the offset log pins, by version
formats.py           the on-disk formats, by version
infer.py             settings and formats -> the versions that may have written a checkpoint
exceptions.py        what Spark raises at a start, by version
state_partitions.py  how many partitions the state has, where no setting keeps the number
"""
