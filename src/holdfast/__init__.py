"""Restart-proof streaming for Apache Spark."""

import importlib
import typing

from holdfast.errors import HoldfastError
from holdfast.model import version

if typing.TYPE_CHECKING:
    from holdfast import sinks, sources
    from holdfast.run.once import once
    from holdfast.run.pipeline import Pipeline, available_now
    from holdfast.run.query.check import check
    from holdfast.run.record import record

__version__ = version.VERSION

__all__ = [
    "HoldfastError",
    "Pipeline",
    "__version__",
    "available_now",
    "check",
    "once",
    "record",
    "sinks",
    "sources",
]

_DECLARING = {
    "Pipeline": ("holdfast.run.pipeline", "Pipeline"),
    "available_now": ("holdfast.run.pipeline", "available_now"),
    "check": ("holdfast.run.query.check", "check"),
    "once": ("holdfast.run.once", "once"),
    "record": ("holdfast.run.record", "record"),
    "sinks": ("holdfast.sinks", ""),
    "sources": ("holdfast.sources", ""),
}


def __getattr__(name: str) -> object:
    """Load what declares jobs where it is asked for: a command that only looks starts faster."""
    if name not in _DECLARING:
        raise AttributeError(f"module `holdfast` has no attribute `{name}`")
    module, attribute = _DECLARING[name]
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
