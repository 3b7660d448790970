"""Where a batch ended, source by source: where the next batch has to begin.

Values are compared, not texts: databases and JSON writers change the order of keys and the
spelling of numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model import json
from holdfast.model.batch import EndOffsets
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry

_NO_OFFSET = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMismatch:
    """A source that a batch ended at one place, and that the log has at a different one."""

    source: str
    expected: Json
    found: Json

    def __str__(self) -> str:
        expected, found = format_offset(self.expected), format_offset(self.found)
        return f"source `{self.source}` ended at `{expected}`, found `{found}`"


def read_ends(ranges: "Json | Unknown") -> EndOffsets | Unknown:
    """Return the ends among the ranges that a ledger has of a batch."""
    return ranges if isinstance(ranges, Unknown) else _read_side(ranges, "end")


def read_starts(ranges: "Json | Unknown") -> EndOffsets | Unknown:
    """Return where the ranges begin that a ledger has of a batch."""
    return ranges if isinstance(ranges, Unknown) else _read_side(ranges, "start")


def _read_side(ranges: Json, what: str) -> EndOffsets | Unknown:
    if not isinstance(ranges, list | tuple):
        return Unknown(reason="the ledger has no offsets of the batch")
    found: dict[str, Json] = {}
    for one in map(json.as_mapping, ranges):
        source = one.get("source")
        if not isinstance(source, str) or what not in one:
            return Unknown(reason="the ledger has no readable offsets of the batch")
        found[source] = one[what]
    return drop_empty(found)


def read_entry(entry: OffsetEntry) -> EndOffsets:
    """Return the ends that an entry of the offset log says."""
    return drop_empty({one.source: one.offset for one in entry.sources})


def drop_empty(ends: Mapping[str, Json]) -> EndOffsets:
    """Return the ends without the sources that have no offset yet."""
    return {source: end for source, end in ends.items() if end is not None}


def find_mismatch(expected: EndOffsets, found: EndOffsets) -> OffsetMismatch | None:
    """Return the first source with a different end; None where all agree."""
    for source in sorted({*expected, *found}):
        one, other = expected.get(source), found.get(source)
        if one != other:
            return OffsetMismatch(source=source, expected=one, found=other)
    return None


def format_offset(offset: Json) -> str:
    """Return an offset as it stands in the offset log."""
    if isinstance(offset, str) or offset is None:
        return offset or _NO_OFFSET
    return json.to_canonical(offset)


def describe_repair(folder: str, batch: BatchId, moved: OffsetMismatch) -> str:
    """Return how to put the offset of a source back, in words that can be followed."""
    following = f"{folder}/{batch + 1}"
    return (
        f"put back `{folder}/{batch}`: the offset of source `{moved.source}` must be"
        f" `{format_offset(moved.expected)}`; delete `{folder}/.{batch}.crc` if it exists. If"
        f" `{following}`"
        f" exists and no sink has batch {batch + 1}, delete it and `{folder}/.{batch + 1}.crc`."
        " Then start again"
    )
