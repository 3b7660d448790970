"""Properties hold whatever the load of the machine and the luck of the draw.

No example has a deadline, and none is refused for the time or the size that it took to make.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "holdfast",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("holdfast")
