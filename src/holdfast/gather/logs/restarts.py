"""Entries of the offset log -> signs of restarts that nothing recorded.

settings changed   Spark pins the session's settings in every entry, and a session does not change
                   them while a query runs: the query was restarted in between. A start does not
                   change the pinned number of partitions: if that changed, the state was
                   repartitioned, for which the query must be stopped
pause              a much longer time between two batches than usual: a restart, or no new data
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from holdfast.model.evidence import RestartSign, Start
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry
from holdfast.report import redact
from holdfast.spark import pinned

_FEWEST = 3
_TIMES_LONGER = 10
_SHORTEST_PAUSE_MS = 60_000


def find_signs(entries: Mapping[BatchId, OffsetEntry]) -> tuple[Start, ...]:
    """Return the signs in the given entries, oldest first."""
    ids = sorted(entries)
    usual = _find_usual_pause([entries[batch].timestamp_ms for batch in ids])
    signs: list[Start] = []
    for before, batch in pairwise(ids):
        note, sign = _describe_change(entries[before], entries[batch]), RestartSign.SETTINGS_CHANGED
        if not note:
            note, sign = _describe_pause(entries[before], entries[batch], usual), RestartSign.PAUSE
        if note:
            signs.append(_make_start(sign, batch, entries[batch], note))
    return tuple(signs)


def _find_usual_pause(times: list[int]) -> float:
    steps = sorted(b - a for a, b in pairwise(times) if b > a)
    return steps[len(steps) // 2] if len(steps) >= _FEWEST else float("inf")


def _describe_change(before: OffsetEntry, after: OffsetEntry) -> str:
    differences = list(_list_differences(before.settings, after.settings))
    if not differences:
        return ""
    if _is_repartition(before.settings, after.settings):
        return f"{differences[0]}: the query was stopped, and its state was repartitioned"
    more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
    return f"{differences[0]}{more}: the query was restarted"


def _is_repartition(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether only the number of partitions differs."""
    was, now = before.get(pinned.SHUFFLE_PARTITIONS), after.get(pinned.SHUFFLE_PARTITIONS)
    return None not in (was, now) and {**before, pinned.SHUFFLE_PARTITIONS: now} == after


def _list_differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None:
            yield f"`{key}` is pinned from here on"
        elif new is None:
            yield f"`{key}` is no longer pinned"
        elif old != new:
            pair = f"from `{redact.setting(key, old)}` to `{redact.setting(key, new)}`"
            yield f"`{key}` changed {pair}"


def _describe_pause(before: OffsetEntry, after: OffsetEntry, usual: float) -> str:
    pause = after.timestamp_ms - before.timestamp_ms
    if before.timestamp_ms <= 0 or pause < max(_SHORTEST_PAUSE_MS, usual * _TIMES_LONGER):
        return ""
    return f"{pause / 1000:,.0f} s after the previous batch: a restart, or no new data"


def _make_start(sign: RestartSign, batch: BatchId, entry: OffsetEntry, note: str) -> Start:
    unknown = Unknown(reason="the offset log does not contain it")
    return Start(
        sign=sign,
        at_ms=entry.timestamp_ms if entry.timestamp_ms > 0 else unknown,
        run_id=None,
        first_batch=batch,
        ended_ms=unknown,
        error="",
        spark_version="",
        note=note,
        read_from=f"offsets/{batch}",
    )
