"""The Spark session that holdfast builds or adopts.

build.py          a session with the right jars and settings
settings.py       every setting that holdfast chooses, and why
jars.py           the locked jars (`jars.lock`)
interruptible.py  work with Spark that Ctrl-C can end
clock.py          the only place that asks for the time of day
"""
