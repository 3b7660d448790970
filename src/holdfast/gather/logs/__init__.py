"""The offset log and the commit log.

tail.py      read the newest entries of both logs
timeline.py  one row per batch
restarts.py  signs of restarts that nothing recorded
"""
