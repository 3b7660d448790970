"""`commits/N` -> CommitEntry.

    v1
    {"nextBatchWatermarkMs":0}                                  `{}` up to Spark 2.3

    v2                                                          state format 2, Spark 4.0 and later
    {"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["<uuid of a store>", …], … per partition]}}

    v3                                                          sinks that may evolve, Spark 4.2
    {…,"sinkMetadataMap":{"out":{"sinkName":"out","commitOffset":"-","providerName":"…",
     "apiVersion":"V2","isActive":true}}}

A file that ends after the version line is a commit without metadata; a file whose second line is
empty is damaged. Spark treats both the same way.
"""

from collections.abc import Mapping, Sequence

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.checkpoint import CommitEntry, CommittedSink
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.json import Json

KNOWN_VERSIONS = (1, 2, 3)
_WITH_SINKS = 3
_NO_OFFSET = "-"


def decode(data: bytes) -> CommitEntry | Unreadable:
    """Return the entry, or why it cannot be read."""
    head = log.split_version(data, "commit log", KNOWN_VERSIONS)
    if isinstance(head, Unreadable):
        return head
    version, rest = head
    entry = _decode_body(version, rest.partition("\n")[0] if rest else "{}")
    if isinstance(entry, Unreadable) and version > 1:
        return Unreadable(reason=f"{entry.reason}, in version {version}")
    return entry


def _decode_body(version: int, line: str) -> CommitEntry | Unreadable:
    fields = (
        log.parse_object(line) if line.strip() else Unreadable(reason="an empty line for its JSON")
    )
    if isinstance(fields, Unreadable):
        return fields
    if isinstance(fields.get("nextBatchWatermarkMs"), str | bool | list | dict):
        return Unreadable(reason="`nextBatchWatermarkMs` is no number")
    watermark = log.as_integer(fields.get("nextBatchWatermarkMs"))
    state_ids = _decode_state_ids(fields.get("stateUniqueIds"))
    if isinstance(state_ids, Unreadable):
        return state_ids
    sinks = tuple(
        _decode_sink(name, json.as_mapping(sink))
        for name, sink in json.as_mapping(fields.get("sinkMetadataMap")).items()
    )
    if version == _WITH_SINKS and sum(sink.active for sink in sinks) != 1:
        return Unreadable(reason="names no active sink, or several")
    return CommitEntry(
        version=version,
        next_watermark_ms=Unknown(reason="the commit has none") if watermark is None else watermark,
        state_ids=state_ids,
        sinks=sinks,
    )


def _decode_state_ids(value: Json) -> Mapping[int, tuple[tuple[str, ...], ...]] | Unreadable:
    state_ids: dict[int, tuple[tuple[str, ...], ...]] = {}
    for key, partitions in json.as_mapping(value).items():
        stores = _decode_partitions(partitions)
        if stores is None or not (key.isascii() and key.isdigit() and len(key) <= 19):  # noqa: PLR2004  64 bits
            return Unreadable(
                reason=f"the state ids of operator `{log.shorten(key)}` are malformed"
            )
        state_ids[int(key)] = stores
    return state_ids


def _decode_partitions(value: Json) -> tuple[tuple[str, ...], ...] | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    partitions: list[tuple[str, ...]] = []
    for stores in value:
        if not isinstance(stores, Sequence) or isinstance(stores, str):
            return None
        names = tuple(name for name in stores if isinstance(name, str))
        if len(names) != len(stores):
            return None
        partitions.append(names)
    return tuple(partitions)


def _decode_sink(name: str, value: Mapping[str, Json]) -> CommittedSink:
    offset = value.get("commitOffset")
    return CommittedSink(
        name=str(value.get("sinkName") or name),
        offset=None if offset == _NO_OFFSET else offset,
        provider=str(value.get("providerName") or ""),
        api_version=str(value.get("apiVersion") or ""),
        active=value.get("isActive", True) is True,
    )
