"""What differs between versions of Spark: the only place to change for the next version. Pure.

versions.py          the versions that are known, and those that a restart is predicted for
pinned.py            the settings that the offset log pins, by version
formats.py           the on-disk formats, by version
infer.py             settings and formats -> the versions that may have written a checkpoint
exceptions.py        the errors that Spark raises at a start, by version
state_partitions.py  the number of state partitions, if no setting keeps it
"""
