"""Amounts, times and batch ids, formatted for people."""

from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.model.fact import Unknown
from holdfast.model.ids import Span

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_STEP = 1000
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_LATEST_MS = 253_402_300_799_000


def format_size(count: int) -> str:
    """Return a number of bytes with at most three digits."""
    amount, unit = float(count), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.3g} {_UNITS[unit]}"


def format_time(at_ms: int | Unknown) -> str:
    """Return a time in UTC, to the second, or a dash."""
    if isinstance(at_ms, Unknown) or not 0 < at_ms < _LATEST_MS:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_iso_time(at_ms: int | Unknown) -> str | None:
    """Return a time as ISO 8601 with milliseconds, or None."""
    if isinstance(at_ms, Unknown) or not 0 < at_ms < _LATEST_MS:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def format_duration(ms: float) -> str:
    """Return a duration in its largest sensible unit."""
    seconds = ms / 1000
    if seconds < 1:
        return f"{ms:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.3g} min"
    return f"{seconds / _HOUR:.3g} h" if seconds < _DAY else f"{seconds / _DAY:.3g} days"


def format_spans(spans: Sequence[Span], most: int = 6) -> str:
    """Return ids in short form, `3-7, 9`; only the newest if there are many."""
    parts = [str(s.first) if s.first == s.last else f"{s.first}-{s.last}" for s in spans]
    return ", ".join((["…"] if len(parts) > most else []) + parts[-most:]) or "none"


def format_number(number: int | Unknown | None) -> str:
    """Return a number with separators, or a dash."""
    return "-" if number is None or isinstance(number, Unknown) else f"{number:,}"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
