"""One question per file; `evaluate` answers it from the evidence. Rules do not know one another.

logs/          the offset log, the commit log, and `metadata`
sources/       the offsets and logs of sources, and what the sources still have
state/         state stores and operators
surroundings/  sinks, drivers, settings, storage, copies, growth
"""
