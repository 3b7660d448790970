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

_LAZY = {
    "Pipeline": ("holdfast.run.pipeline", "Pipeline"),
    "available_now": ("holdfast.run.pipeline", "available_now"),
    "check": ("holdfast.run.query.check", "check"),
    "once": ("holdfast.run.once", "once"),
    "record": ("holdfast.run.record", "record"),
    "sinks": ("holdfast.sinks", ""),
    "sources": ("holdfast.sources", ""),
}


def __getattr__(name: str) -> object:
    """Load a public name on first use: commands that only read a checkpoint start faster."""
    if name not in _LAZY:
        raise AttributeError(f"module `holdfast` has no attribute `{name}`")
    path, attribute = _LAZY[name]
    module = importlib.import_module(path)
    return getattr(module, attribute) if attribute else module
