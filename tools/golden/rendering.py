"""Spark's reports -> the text of an `expected.json`, without timings, one line per progress.

Timings and rates are half of a report, and nothing on disk can be compared with them.
"""

import json

_LEVELS = 4
_TIMINGS = frozenset(
    {
        "allRemovalsTimeMs",
        "allUpdatesTimeMs",
        "batchDuration",
        "commitTimeMs",
        "customMetrics",
        "durationMs",
        "inputRowsPerSecond",
        "memoryUsedBytes",
        "processedRowsPerSecond",
    }
)


def render(value: object) -> str:
    """Return the text of an `expected.json`."""
    return _rendered(_untimed(value), _LEVELS, "") + "\n"


def _untimed(value: object) -> object:
    match value:
        case dict():
            return {key: _untimed(value[key]) for key in value if key not in _TIMINGS}
        case list():
            return [_untimed(item) for item in value]
        case _:
            return value


def _rendered(value: object, depth: int, indent: str) -> str:
    inner = indent + " "
    if depth and isinstance(value, dict) and value:
        lines = [f"{json.dumps(key)}: {_rendered(value[key], depth - 1, inner)}" for key in value]
        return "{\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}}}"
    if depth and isinstance(value, list) and any(isinstance(item, dict) for item in value):
        lines = [_rendered(item, depth - 1, inner) for item in value]
        return "[\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}]"
    return json.dumps(value, default=str)
