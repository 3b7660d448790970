"""Spans hold the same ids as a set, and what can be restored is what a replay can reach."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.gather.inventory import spans
from holdfast.gather.inventory.spans import Spans
from holdfast.model.ids import Span

_IDS = st.lists(st.integers(0, 60), max_size=40)


def members(found: tuple[Span, ...]) -> set[int]:
    return {number for span in found for number in range(span.first, span.last + 1)}


@given(st.lists(_IDS, max_size=5))
def test_spans_are_a_set(portions: list[list[int]]) -> None:
    held = Spans()
    expected: set[int] = set()
    for portion in portions:
        held.add(list(portion))
        expected |= set(portion)
    assert members(tuple(held)) == expected
    assert (held.first, held.last) == (min(expected, default=None), max(expected, default=None))
    assert bool(held) is bool(expected)
    ordered = list(held)
    assert all(a.last + 1 < b.first for a, b in pairwise(ordered))
    for most in (1, 3, 100):
        assert held.tail(most) == sorted(expected)[-most:]
    for number in range(62):
        assert (number in held) is (number in expected)
        below = [one for one in expected if one < number]
        assert held.before(number) == max(below, default=None)


def test_ids_come_in_any_order_and_none_is_lost() -> None:
    """As a file system lists a long folder: in portions, each from all over the log."""
    count = 60_000
    ids = list(range(5, 5 + count))
    random.Random(7).shuffle(ids)
    held = Spans()
    for start in range(0, count, 4096):
        held.add(ids[start : start + 4096])
    assert list(held) == [Span(first=5, last=4 + count)]
    held.add(list(range(100_000, 100_000 + 40_000, 2)))
    assert (held.first, held.last) == (5, 139_998)
    assert (100_001 in held, 100_002 in held, held.before(100_002)) == (False, True, 100_000)
    assert len(list(held)) == spans.MOST
    held.keep(60_000, 100_003)
    assert [(one.first, one.last) for one in held] == [
        (60_000, 4 + count), (100_000, 100_000), (100_002, 100_002),
    ]  # fmt: skip


@given(_IDS, _IDS)
def test_a_version_is_restorable_if_a_replay_reaches_it(
    snapshots: list[int], changes: list[int]
) -> None:
    held, later = Spans(), Spans()
    held.add([number + 1 for number in snapshots])
    later.add([number + 1 for number in changes])
    found = members(spans.find_restorable(tuple(held), tuple(later)))
    reached = {0, *(number + 1 for number in snapshots)}
    for version in range(1, 63):
        if version - 1 in reached and version in {number + 1 for number in changes}:
            reached.add(version)
    assert found == reached - {0}


@given(st.lists(_IDS, min_size=1, max_size=4))
def test_what_is_common_is_in_every_part(parts: list[list[int]]) -> None:
    held = []
    for part in parts:
        one = Spans()
        one.add(list(part))
        held.append(tuple(one))
    expected = set.intersection(*(set(part) for part in parts))
    assert members(spans.intersect(held)) == expected
