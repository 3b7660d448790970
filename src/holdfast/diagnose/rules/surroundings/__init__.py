"""What lies around a checkpoint: sinks, drivers, settings, storage, copies.

sinks.py      do the sinks contain what the checkpoint counts as done?
drivers.py    is a driver running this query?
settings.py   do the settings of the next start have an effect?
storage.py    does the storage last?
copies.py     is this checkpoint a copy of another, or inside another?
growth.py     does something grow without bound?
old_spark.py  is this a Spark that the predictions were compared with?
"""
