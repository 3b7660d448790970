"""Many ids in little memory: runs of consecutive numbers, merged as they arrive.

The ids of a log or a state store have few gaps, so a million ids are a few spans. But a file system
may list them in any order, and then there are many spans until the last id arrives. So scattered
ids wait, in eight bytes each, and are sorted when they are first needed.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from holdfast.model.ids import Span

_NEVER = 1 << 63
_FEW = 64
MOST = 10_000
"""More spans than this are more gaps than a report can show; the lowest are left out."""


class Spans:
    """A set of ids, as sorted spans."""

    __slots__ = ("_scattered", "_spans")

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._scattered = array("q")

    def add(self, ids: list[int]) -> None:
        """Add ids; the list is sorted in place."""
        ids.sort()
        fresh = list(_split_runs(ids))
        if len(fresh) > _FEW:
            self._scattered.extend(ids)
        else:
            self._merge(fresh)

    def _merge(self, fresh: list[tuple[int, int]]) -> None:
        if self._spans and fresh and fresh[0][0] > self._spans[-1][1] + 1:
            self._spans += fresh
        else:
            self._spans = list(_merge_pairs(sorted(self._spans + fresh)))

    def _ordered(self) -> list[tuple[int, int]]:
        if self._scattered:
            ids = sorted(self._scattered)
            self._scattered = array("q")
            self._merge(list(_split_runs(ids)))
        return self._spans

    def __bool__(self) -> bool:
        return bool(self._spans or self._scattered)

    def __iter__(self) -> Iterator[Span]:
        return (Span(first=first, last=last) for first, last in self._ordered()[-MOST:])

    @property
    def first(self) -> int | None:
        """The lowest id."""
        return self._ordered()[0][0] if self else None

    @property
    def last(self) -> int | None:
        """The highest id."""
        return self._ordered()[-1][1] if self else None

    def tail(self, most: int) -> list[int]:
        """Return the highest ids, ascending, at most `most` of them."""
        ids: list[int] = []
        for first, last in reversed(self._ordered()):
            ids += range(last, max(first, last - (most - len(ids)) + 1) - 1, -1)
            if len(ids) >= most:
                break
        return ids[::-1]

    def before(self, number: int) -> int | None:
        """Return the highest id below a number."""
        at = bisect_left(self._ordered(), number, key=itemgetter(0)) - 1
        return min(self._spans[at][1], number - 1) if at >= 0 else None

    def keep(self, first: int, last: int) -> None:
        """Drop the ids before `first` and after `last`."""
        kept = [(max(start, first), min(end, last)) for start, end in self._ordered()]
        self._spans = [(start, end) for start, end in kept if start <= end]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._ordered(), (number, _NEVER)) - 1
        return at >= 0 and number <= self._spans[at][1]


def find_restorable(
    snapshots: Iterable[Span], changes: Sequence[Span], most: int = _NEVER
) -> tuple[Span, ...]:
    """Return the versions that can be restored: a snapshot and at most `most` changes after it.

    State starts empty at version 0, so an unbroken run of changes from 1 needs no snapshot.
    """
    starts = [span.first for span in changes]
    reach = [(1, min(changes[0].last, most))] if changes and changes[0].first == 1 else []
    for span in snapshots:
        ends = (span.first, span.last)
        reach += [(v, min(_find_reach(v, changes, starts), v + most)) for v in ends]
        reach.append((span.first, span.last))
    merged = _merge_pairs(sorted(reach))
    return tuple(Span(first=first, last=last) for first, last in merged)


def intersect(parts: Sequence[Sequence[Span]]) -> tuple[Span, ...]:
    """Return the ids that are in every part."""
    if not parts:
        return ()
    shared = list(parts[0])
    for part in parts[1:]:
        shared = list(_intersect_pair(shared, part))
    return tuple(shared)


def merge(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same ids in as few spans as possible; the spans must be sorted."""
    merged = _merge_pairs((span.first, span.last) for span in spans)
    return tuple(Span(first=first, last=last) for first, last in merged)


def subtract(spans: Sequence[Span], holes: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans without the holes."""
    kept = spans
    for hole in holes:
        sides = [
            side
            for span in kept
            for side in ((span.first, min(span.last, hole.first - 1)),
                         (max(span.first, hole.last + 1), span.last))
        ]  # fmt: skip
        kept = [Span(first=first, last=last) for first, last in sides if first <= last]
    return tuple(kept)


def _intersect_pair(left: Sequence[Span], right: Sequence[Span]) -> Iterator[Span]:
    """Yield the ids that two parts share; each part is walked once, in step."""
    i, j = 0, 0
    while i < len(left) and j < len(right):
        first = max(left[i].first, right[j].first)
        last = min(left[i].last, right[j].last)
        if first <= last:
            yield Span(first=first, last=last)
        if left[i].last < right[j].last:
            i += 1
        else:
            j += 1


def _find_reach(version: int, changes: Sequence[Span], starts: Sequence[int]) -> int:
    """Return the last version that unbroken changes reach; `starts` are their first versions."""
    at = bisect_right(starts, version + 1) - 1
    return changes[at].last if at >= 0 and changes[at].last > version else version


def _split_runs(ids: list[int]) -> Iterator[tuple[int, int]]:
    if not ids:
        return
    first = last = ids[0]
    for number in ids:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _merge_pairs(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    current: tuple[int, int] | None = None
    for first, last in spans:
        if current is None:
            current = (first, last)
        elif first <= current[1] + 1:
            current = (current[0], max(current[1], last))
        else:
            yield current
            current = (first, last)
    if current is not None:
        yield current
