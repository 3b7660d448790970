"""Restart-proof streaming for Apache Spark."""

from holdfast import sinks as sinks
from holdfast import sources as sources
from holdfast.errors import HoldfastError as HoldfastError
from holdfast.run.pipeline import Pipeline as Pipeline
from holdfast.run.pipeline import available_now as available_now
from holdfast.model.version import VERSION as __version__

__all__ = ["HoldfastError", "Pipeline", "__version__", "available_now", "sinks", "sources"]
