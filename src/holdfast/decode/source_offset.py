"""The JSON of a source's offset -> an Offset by kind; two offsets -> ConsumedRange.

The offset log does not name the kind of a source. The kind is recognised by the shape of the offset
(`source_shapes`) and, if several kinds share the shape, by the description of the source in run
records and event logs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never

from holdfast.decode import source_shapes
from holdfast.model import json
from holdfast.model.fact import Unknown
from holdfast.model.json import Json
from holdfast.model.source_offset import (
    AutoLoaderOffset,
    Basis,
    ConsumedRange,
    DeltaOffset,
    EventHubsOffset,
    FileOffset,
    IcebergOffset,
    KafkaOffset,
    KinesisOffset,
    Movement,
    NoOffset,
    NumberOffset,
    Offset,
    OpaqueOffset,
    PartitionChange,
    PartitionNumbersOffset,
    PubSubOffset,
    RateMicroBatchOffset,
    RatePartitionsOffset,
    RecognisedOffset,
    Recognition,
    SequentialUnionOffset,
    ShardPosition,
)

# The more specific shape first: Pub/Sub has every field of Auto Loader, and more.
_SHAPES: tuple[Callable[[Json], RecognisedOffset | None], ...] = (
    source_shapes.match_files,
    source_shapes.match_delta,
    source_shapes.match_iceberg,
    source_shapes.match_kinesis,
    source_shapes.match_pub_sub,
    source_shapes.match_auto_loader,
    source_shapes.match_sequential_union,
    source_shapes.match_rate_micro_batch,
    source_shapes.match_rate_partitions,
    source_shapes.match_number,
    source_shapes.match_kafka,
    source_shapes.match_partition_numbers,
)
_DESCRIBED = {
    "cloudfiles": "Auto Loader",
    "delta": "Delta",
    "eventhubs": "Event Hubs",
    "filestreamsource": "files",
    "kafka": "Kafka",
    "kinesis": "Kinesis",
    "memorystream": "memory",
    "pubsublite": "Pub/Sub Lite",
    "pubsub": "Pub/Sub",
    "ratepermicrobatch": "rate-micro-batch",
    "rate": "rate",
    "textsocket": "socket",
}
# A Python source chooses its own offsets, which may have the shape of another kind.
_PYTHON = ".datasources.v2.python."
_DELTA_NAMES_CHANGES, _DELTA_BASE = 3, -100
_UNITS: Mapping[type[RecognisedOffset], str] = {
    AutoLoaderOffset: "files",
    DeltaOffset: "versions",
    FileOffset: "log offsets",
    RateMicroBatchOffset: "rows",
}


def decode(value: Json, *, described: str = "") -> Offset:
    """Return the offset by kind; `described` is the source's description, if records have one."""
    if value is None:
        return NoOffset()
    if _PYTHON in described.lower():
        return OpaqueOffset(value=value, source="a Python data source")
    offset = next(
        (candidate for candidate in (shape(value) for shape in _SHAPES) if candidate is not None),
        None,
    )
    if offset is None:
        return OpaqueOffset(value=value)
    return _apply_description(offset, described) if described else offset


def _apply_description(offset: RecognisedOffset, described: str) -> RecognisedOffset:
    """Return the offset with the kind that the description names, if the shape allows it."""
    name = name_source(described)
    allowed = (offset.recognition.source, *offset.recognition.others)
    if not name or not any(kind.startswith(name) for kind in allowed):
        return offset
    named = Recognition(source=name, basis=Basis.DESCRIPTION)
    if isinstance(offset, KafkaOffset) and name == "Event Hubs":
        return EventHubsOffset(recognition=named, partitions=offset.partitions)
    return replace(offset, recognition=named)


def name_source(described: str) -> str:
    """Return the kind of source that a description names, or an empty text."""
    head = described.partition("[")[0].lower()
    return next((name for key, name in _DESCRIBED.items() if key in head), "")


def find_start(previous: Json, began: Json, *, described: str = "") -> Json:
    """Return where a batch begins in a source: the end of the previous batch, or the first offset.

    `began` is the start in the folder of the source. Only Kafka and Event Hubs keep offsets there;
    None means the beginning of the source.
    """
    if previous is not None:
        return previous
    first = decode(began, described=described)
    return began if isinstance(first, KafkaOffset | EventHubsOffset) else None


def list_positions(offset: Offset) -> tuple[tuple[str, str], ...]:
    """Return the position of each partition as text; a source without partitions has one, ""."""
    positions = _read_positions(offset)
    return tuple((partition, positions[partition].text) for partition in sorted(positions))


class _Position(NamedTuple):
    """The position of a partition: as text, and as numbers if positions have an order.

    Differences of `number` count the source's units; it is None if no number does. `lowest` is the
    number of the very first position.
    """

    text: str
    order: tuple[int, ...] | None = None
    number: int | None = None
    lowest: int | None = None


def compute_consumed(start: Offset | Unknown, end: Offset) -> ConsumedRange:
    """Return the range between two offsets of a source; NoOffset as the start is its beginning.

    Counts are in the numbers of the source. Kafka also numbers transaction markers and compacted
    records, so for Kafka a count is an upper bound of the records.
    """
    new = _read_positions(end)
    if isinstance(start, Unknown):
        return _compute_open_range(start, end, new)
    old = _find_beginning(end) if isinstance(start, NoOffset) else _read_positions(start)
    changes = tuple(
        _make_change(partition, old.get(partition), new.get(partition))
        for partition in sorted(old.keys() | new.keys())
    )
    counts = [change.count for change in changes]
    known = [count for count in counts if isinstance(count, int)]
    unknown = next((count for count in counts if isinstance(count, Unknown)), None)
    source, unit = _name_unit(start if isinstance(end, NoOffset) else end)
    return ConsumedRange(
        source=source,
        unit=unit,
        partitions=changes,
        total=sum(known) if unknown is None else unknown,
    )


def _compute_open_range(
    start: Unknown, end: Offset, positions: Mapping[str, _Position]
) -> ConsumedRange:
    """Return the range that ends at an offset and has an unknown start."""
    source, unit = _name_unit(end)
    changes = tuple(
        PartitionChange(
            partition=partition,
            start="?",
            end=positions[partition].text,
            count=start,
            change=Movement.START_UNKNOWN,
        )
        for partition in sorted(positions)
    )
    return ConsumedRange(source=source, unit=unit, partitions=changes, total=start)


def _find_beginning(end: Offset) -> Mapping[str, _Position]:
    """Return the position before the first offset, for sources that always begin the same way."""
    match end:
        case FileOffset():
            return {"": _Position("", (-1,), -1)}
        case RateMicroBatchOffset():
            return {"": _Position("", (0,), 0)}
        case NumberOffset(value=-1):
            # Only a socket logs -1, if it has not read a line yet.
            return {"": _make_counted(-1)}
        case _:
            return {}


def _make_change(partition: str, start: _Position | None, end: _Position | None) -> PartitionChange:
    change, count = _classify_movement(start, end)
    return PartitionChange(
        partition=partition,
        start="" if start is None else start.text,
        end="" if end is None else end.text,
        count=count,
        change=change,
    )


def _classify_movement(
    start: _Position | None, end: _Position | None
) -> tuple[Movement, int | Unknown]:
    if end is None:
        return Movement.VANISHED, 0
    if start is None:
        nothing = end.number is not None and end.number == end.lowest
        began = Unknown(reason="where it began is not in the offset log")
        return Movement.APPEARED, 0 if nothing else began
    if start == end:
        return Movement.UNCHANGED, 0
    if start.order is None or end.order is None:
        return Movement.CHANGED, Unknown(reason="its positions have no order")
    if start.order > end.order:
        return Movement.WENT_BACK, Unknown(reason="the offset went back")
    return Movement.ADVANCED, _count_between(start.number, end.number)


def _count_between(start: int | None, end: int | None) -> int | Unknown:
    if start is None or end is None:
        return Unknown(reason="its positions do not count")
    return end - start or Unknown(reason="it moved inside one")


def _make_counted(number: int) -> _Position:
    return _Position(str(number), (number,), number)


def _read_positions(offset: Offset) -> Mapping[str, _Position]:  # noqa: C901, PLR0911, PLR0912  one case a kind
    match offset:
        case KafkaOffset() | EventHubsOffset():
            return {
                f"{at.topic}-{at.partition}": _make_counted(n)._replace(lowest=0)
                for at, n in offset.partitions.items()
            }
        case FileOffset():
            return {"": _make_counted(offset.log_offset)}
        case DeltaOffset():
            return {offset.table_id: _make_delta_position(offset)}
        case NumberOffset():
            return {"": _make_counted(offset.value)}
        case RateMicroBatchOffset():
            return {"": _make_counted(offset.rows)}
        case RatePartitionsOffset() | PartitionNumbersOffset():
            return {str(partition): _make_counted(n) for partition, n in offset.values.items()}
        case KinesisOffset():
            return {
                shard: _make_shard_position(position) for shard, position in offset.shards.items()
            }
        case PubSubOffset() | AutoLoaderOffset():
            return {"": _make_counted(offset.sequence)}
        case IcebergOffset():
            text = f"snapshot {offset.snapshot_id}, position {offset.position}"
            return {"": _Position(text)}
        case SequentialUnionOffset():
            return {"": _Position(offset.active, (len(offset.completed),))}
        case OpaqueOffset():
            return {"": _Position(json.to_canonical(offset.value))}
        case NoOffset():
            return {}
        case _:
            assert_never(offset)


def _make_delta_position(offset: DeltaOffset) -> _Position:
    inside = ", in the starting snapshot" if offset.in_starting_snapshot else ""
    return _Position(
        f"version {offset.version}, index {offset.index}{inside}",
        (offset.version, not offset.in_starting_snapshot, _order_delta_index(offset)),
        offset.version,
    )


def _order_delta_index(offset: DeltaOffset) -> int:
    """Return the index for ordering: -1 in older sources comes before a schema change."""
    base = offset.index == -1 and offset.source_version < _DELTA_NAMES_CHANGES
    return _DELTA_BASE if base else offset.index


def _make_shard_position(position: ShardPosition) -> _Position:
    inside = f", record {position.inside}" if position.inside else ""
    closed = ", closed" if position.closed else ""
    order = _parse_sequence_number(position.number)
    return _Position(
        f"{position.number}{inside}{closed}",
        None if order is None else (*order, position.inside, position.last, position.closed),
    )


def _parse_sequence_number(number: str) -> tuple[int, ...] | None:
    """Parse a sequence number of Kinesis, which has about 56 digits."""
    return (int(number),) if number.isascii() and number.isdigit() and len(number) < 200 else None  # noqa: PLR2004


def _name_unit(offset: Offset) -> tuple[str, str]:
    """Return the name of the source, and the unit that its numbers count."""
    if isinstance(offset, NoOffset):
        return "", ""
    if isinstance(offset, OpaqueOffset):
        return offset.source, ""
    return offset.recognition.source, _UNITS.get(type(offset), "offsets")
