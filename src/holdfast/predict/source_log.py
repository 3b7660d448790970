"""What a start reads in the log of a file source.

    0 1 2 … 8 9.compact 10 11        the interval is 10: (K + 1) % 10 == 0 is compacted

Spark derives the interval again from the compacted entries: with two or more, the distance of the
last two; with one, a divisor of its number plus one that is no smaller than the setting; with none,
the setting. No file contains the setting. It is assumed to be the default, unless a plain entry
lies where the default would have compacted one.
"""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceFolderKind, SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.ids import Span, spans_contain
from holdfast.model.json import Json
from holdfast.model.source_offset import FileOffset, NumberOffset

DEFAULT_INTERVAL = 10
EMPTY = SourceLog(is_file_log=True, entries=(), compacts=(), damaged=())


def map_folders(evidence: Evidence) -> Mapping[str, str | Unknown]:
    """Return the folder of each source by its name in the offset log."""
    return {source.name: source.folder for source in evidence.sources}


def read_offset(offset: Json, log: SourceLog | None) -> int | None:
    """Return the log offset of a file source; it reads a bare number as such an offset."""
    decoded = source_offset.decode(offset)
    if log is not None and log.folder_kind in (SourceFolderKind.KAFKA, SourceFolderKind.RATE):
        return None
    if isinstance(decoded, FileOffset):
        return decoded.log_offset
    reads_files = log is not None and log.is_file_log
    return decoded.value if reads_files and isinstance(decoded, NumberOffset) else None


def find(evidence: Evidence, source: str) -> SourceLog | None:
    """Return the log of a source by its name in the offset log, if its folder is known."""
    folder = map_folders(evidence).get(source, source)
    return None if isinstance(folder, Unknown) else evidence.source_logs.get(folder)


def find_latest(log: SourceLog) -> int:
    """Return the highest log offset, or -1."""
    return max((span.last for span in (*log.entries, *log.compacts)), default=-1)


def find_required(log: SourceLog) -> range:
    """Return the log offsets that a new source reads: from the last compacted entry on."""
    newest, interval = find_latest(log), _find_interval(log)
    return range(max(0, (newest + 1) // interval * interval - 1), newest + 1)


def name_entry(log: SourceLog, offset: int) -> str:
    """Return the name of the file that Spark opens for a log offset."""
    return f"{offset}.compact" if _is_compacted(log, offset) else str(offset)


def find_absent(log: SourceLog, offsets: range) -> tuple[int, ...]:
    """Return the log offsets without a file of the name that Spark opens."""
    return tuple(offset for offset in offsets if not _is_present(log, offset))


def find_unknown(log: SourceLog, offsets: range) -> tuple[int, ...]:
    """Return the log offsets that neither their own file nor a compacted entry contains.

    Spark looks up what it removed after a compaction in the last compacted entry.
    """
    required = find_required(log)
    first = required.start
    has_compact = bool(required) and _is_compacted(log, first) and _is_present(log, first)
    return tuple(
        offset for offset in find_absent(log, offsets) if not (has_compact and offset <= first)
    )


def _is_present(log: SourceLog, offset: int) -> bool:
    return spans_contain(log.compacts if _is_compacted(log, offset) else log.entries, offset)


def _is_compacted(log: SourceLog, offset: int) -> bool:
    return (offset + 1) % _find_interval(log) == 0


def find_least_setting(log: SourceLog) -> int:
    """Return the smallest interval setting, from the default on, with which a start can read it."""
    newest = list(_list_newest(log.compacts))
    if len(newest) > 1 or _find_interval(log) == next(_list_intervals(log), None):
        return DEFAULT_INTERVAL
    if not newest:
        return _find_interval(log)
    refused = [interval for interval in _list_intervals(log) if interval < _find_interval(log)]
    return max(refused, default=DEFAULT_INTERVAL - 1) + 1


def _find_interval(log: SourceLog) -> int:
    newest = list(_list_newest(log.compacts))
    if len(newest) > 1:
        return newest[0] - newest[1]
    beyond = find_latest(log) + 2
    fitting = (interval for interval in _list_intervals(log) if not _has_plain_entry(log, interval))
    return next(fitting, beyond)


def _list_intervals(log: SourceLog) -> Iterator[int]:
    """Yield the intervals that Spark can derive with at most one compacted entry."""
    newest = list(_list_newest(log.compacts))
    if not newest:
        yield DEFAULT_INTERVAL
        return
    last = newest[0] + 1
    if last // 2 > DEFAULT_INTERVAL:
        divisors = range(DEFAULT_INTERVAL, last // 2 + 1)
        yield from (interval for interval in divisors if last % interval == 0)
    yield last


def _has_plain_entry(log: SourceLog, interval: int) -> bool:
    """Return whether a plain entry lies where this interval would have compacted one."""
    return any(
        spans_contain(log.entries, offset) and not spans_contain(log.compacts, offset)
        for offset in range(interval - 1, find_latest(log) + 1, interval)
    )


def _list_newest(compacts: Sequence[Span]) -> Iterator[int]:
    """Yield the two highest compacted log offsets."""
    highest = [n for span in compacts[-2:] for n in (span.last, span.last - 1) if n >= span.first]
    return iter(sorted(highest, reverse=True)[:2])
