"""Properties hold whatever the load of the machine: no example has a deadline."""

from hypothesis import settings

settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")
