"""The end offsets of a batch, by source: the next batch must begin there.

Offsets are compared as values, not as text, because databases and JSON writers change the order of
keys and the spelling of numbers.
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
    """A source whose end offset in the offset log differs from the end offset of the batch."""

    source: str
    expected: Json
    found: Json

    def __str__(self) -> str:
        expected, found = format_offset(self.expected), format_offset(self.found)
        return f"source `{self.source}` ended at `{expected}`, but the offset log has `{found}`"


def read_ends(ranges: "Json | Unknown") -> EndOffsets | Unknown:
    """Return the end offsets of the ranges that a ledger has for a batch."""
    return ranges if isinstance(ranges, Unknown) else _read_side(ranges, "end")


def read_starts(ranges: "Json | Unknown") -> EndOffsets | Unknown:
    """Return the start offsets of the ranges that a ledger has for a batch."""
    return ranges if isinstance(ranges, Unknown) else _read_side(ranges, "start")


def _read_side(ranges: Json, side: str) -> EndOffsets | Unknown:
    if not isinstance(ranges, list | tuple):
        return Unknown(reason="the ledger has no offsets of the batch")
    offsets: dict[str, Json] = {}
    for consumed in map(json.as_mapping, ranges):
        source = consumed.get("source")
        if not isinstance(source, str) or side not in consumed:
            return Unknown(reason="the ledger has no readable offsets of the batch")
        offsets[source] = consumed[side]
    return drop_empty(offsets)


def read_entry(entry: OffsetEntry) -> EndOffsets:
    """Return the end offsets of an entry of the offset log."""
    return drop_empty({source.source: source.offset for source in entry.sources})


def drop_empty(ends: Mapping[str, Json]) -> EndOffsets:
    """Return the end offsets without sources that have no offset yet."""
    return {source: end for source, end in ends.items() if end is not None}


def find_mismatch(expected: EndOffsets, found: EndOffsets) -> OffsetMismatch | None:
    """Return the first source with a different end offset; None if all are the same."""
    for source in sorted({*expected, *found}):
        if expected.get(source) != found.get(source):
            return OffsetMismatch(
                source=source, expected=expected.get(source), found=found.get(source)
            )
    return None


def format_offset(offset: Json) -> str:
    """Return an offset as the offset log writes it."""
    if isinstance(offset, str) or offset is None:
        return offset or _NO_OFFSET
    return json.to_canonical(offset)


def describe_repair(folder: str, batch: BatchId, moved: OffsetMismatch) -> str:
    """Return how to put back the offset of a source."""
    following = f"{folder}/{batch + 1}"
    return (
        f"put back `{folder}/{batch}`: the offset of source `{moved.source}` must be"
        f" `{format_offset(moved.expected)}`; delete `{folder}/.{batch}.crc` if it exists. If"
        f" `{following}` exists and no sink has batch {batch + 1}, delete `{following}` and"
        f" `{folder}/.{batch + 1}.crc`. Then start again"
    )
