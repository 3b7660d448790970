"""Restart-proof streaming for Apache Spark."""

from holdfast import sinks, sources
from holdfast.errors import HoldfastError
from holdfast.model import version
from holdfast.run.pipeline import Pipeline, available_now
from holdfast.run.record import record

__version__ = version.VERSION

__all__ = [
    "HoldfastError",
    "Pipeline",
    "__version__",
    "available_now",
    "record",
    "sinks",
    "sources",
]
