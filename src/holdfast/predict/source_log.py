"""Stage 3: the log of a file source -> what a start finds in it.

    0 1 2 … 8 9.compact 10 11        the interval is 10: (K + 1) % 10 == 0 is compacted

Spark derives the interval anew from the compacted entries that it finds: the distance of the last
two; of a single one, a divisor of its number plus one that is no smaller than the setting; without
any it is the setting. The setting is in no file. It is taken to be the default, unless a plain
entry lies where that would have compacted one.
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
    """The folder of each source by its name in the offset log."""
    return {one.name: one.folder for one in evidence.sources}


def read_offset(offset: Json, log: SourceLog | None) -> int | None:
    """Return where a file source stands in its log; it takes a bare number for such an offset."""
    found = source_offset.decode(offset)
    if log is not None and log.folder_kind in (SourceFolderKind.KAFKA, SourceFolderKind.RATE):
        return None
    if isinstance(found, FileOffset):
        return found.log_offset
    files = log is not None and log.is_file_log
    return found.value if files and isinstance(found, NumberOffset) else None


def find(evidence: Evidence, source: str) -> SourceLog | None:
    """Return the log of a source by its name in the offset log, if its folder is known."""
    folder = map_folders(evidence).get(source, source)
    return None if isinstance(folder, Unknown) else evidence.source_logs.get(folder)


def find_latest(log: SourceLog) -> int:
    """The highest log offset, or -1."""
    return max((span.last for span in (*log.entries, *log.compacts)), default=-1)


def find_required(log: SourceLog) -> range:
    """The log offsets that a source reads when it is made: from the last compacted one on."""
    newest, interval = find_latest(log), _find_interval(log)
    return range(max(0, (newest + 1) // interval * interval - 1), newest + 1)


def name_entry(log: SourceLog, offset: int) -> str:
    """The file that Spark looks for under a log offset."""
    return f"{offset}.compact" if _is_compacted(log, offset) else str(offset)


def find_absent(log: SourceLog, offsets: range) -> tuple[int, ...]:
    """Which of these log offsets have no file of the name that Spark looks for."""
    return tuple(offset for offset in offsets if not _is_present(log, offset))


def find_unknown(log: SourceLog, offsets: range) -> tuple[int, ...]:
    """Which of these log offsets cannot be told at all: not by their own file, nor by a later one.

    What was removed after a compaction is looked up in the last compacted entry.
    """
    told = find_required(log)
    compacted = bool(told) and _is_compacted(log, told.start) and _is_present(log, told.start)
    return tuple(
        offset for offset in find_absent(log, offsets) if not (compacted and offset <= told.start)
    )


def _is_present(log: SourceLog, offset: int) -> bool:
    return spans_contain(log.compacts if _is_compacted(log, offset) else log.entries, offset)


def _is_compacted(log: SourceLog, offset: int) -> bool:
    return (offset + 1) % _find_interval(log) == 0


def find_least_setting(log: SourceLog) -> int:
    """The smallest setting of the interval, from the default on, that a start can read it with."""
    newest = list(_list_newest(log.compacts))
    if len(newest) > 1 or _find_interval(log) == next(_list_intervals(log), None):
        return DEFAULT_INTERVAL
    if not newest:
        return _find_interval(log)
    refused = [n for n in _list_intervals(log) if n < _find_interval(log)]
    return max(refused, default=DEFAULT_INTERVAL - 1) + 1


def _find_interval(log: SourceLog) -> int:
    newest = list(_list_newest(log.compacts))
    if len(newest) > 1:
        return newest[0] - newest[1]
    beyond = find_latest(log) + 2
    return next((n for n in _list_intervals(log) if not _has_plain_entry(log, n)), beyond)


def _list_intervals(log: SourceLog) -> Iterator[int]:
    """What Spark can take the interval for without two compacted entries, by the setting."""
    newest = list(_list_newest(log.compacts))
    if not newest:
        yield DEFAULT_INTERVAL
        return
    last = newest[0] + 1
    if last // 2 > DEFAULT_INTERVAL:
        yield from (n for n in range(DEFAULT_INTERVAL, last // 2 + 1) if last % n == 0)
    yield last


def _has_plain_entry(log: SourceLog, interval: int) -> bool:
    """Whether a plain entry lies where this interval would have compacted one."""
    return any(
        spans_contain(log.entries, offset) and not spans_contain(log.compacts, offset)
        for offset in range(interval - 1, find_latest(log) + 1, interval)
    )


def _list_newest(compacts: Sequence[Span]) -> Iterator[int]:
    """The two highest compacted log offsets."""
    found = [n for span in compacts[-2:] for n in (span.last, span.last - 1) if n >= span.first]
    return iter(sorted(found, reverse=True)[:2])
