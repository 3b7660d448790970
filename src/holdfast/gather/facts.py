"""Stage 2: everything that was looked at -> the nine facts, each with the files that say so.

A fact is known, absent, unreadable or unknown; what is inferred says from what.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.gather.history import runs
from holdfast.gather.history.query_facts import History
from holdfast.gather.inventory import tree
from holdfast.gather.logs import restarts, tail
from holdfast.gather.state import operators, summary
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Batches, SourceEvidence, SourceLog, Start
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.ids import BatchId, QueryId
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import Offset
from holdfast.model.spark_version import Runtime, VersionRange
from holdfast.spark.formats import Format
from holdfast.spark.infer import detect_runtime, infer_version_range

_NOT_TOLD = "no checkpoint tells it"
_WOULD_TELL = "; a run record or `--event-log PATH` would"
_NOR_RUNS = ", and what is told of its runs does not either"
_SECOND = 2
_PAST = Unknown(reason="no offset entry can be read")


@dataclass(slots=True)
class Observations:
    """Everything that was looked at, before it is put together."""

    tree: tree.CheckpointTree
    entries: tail.Entries
    recorded: runs.RunRecords
    told: History
    query_id: Fact[QueryId]
    state: operators.StatefulOperators
    sources: tuple[SourceEvidence, ...]
    unreadable: list[UnreadableFile]
    source_logs: dict[str, SourceLog]


def find_query_id(seen: Observations) -> Fact[QueryId]:
    """As `metadata` tells it, or else the newest run."""
    told = seen.told.query_id
    if isinstance(seen.query_id, Known) or told is None:
        return seen.query_id
    tells = (
        "the newest run record does"
        if seen.recorded.events
        else "the event log has a query whose plan names this checkpoint location"
    )
    reason = f"`metadata` does not tell it ({seen.query_id.reason}); {tells}"
    return Known(value=told.value, read_from=told.read_from, inferred=reason)


def find_source_offsets(seen: Observations, batches: Batches) -> Fact[Mapping[str, Offset]]:
    """Where each source stands."""
    planned, unlisted = batches.last_planned, batches.unlisted_log("offsets")
    if unlisted is not None:
        return unlisted
    if planned is None:
        never = (
            ""
            if batches.last_committed is not None
            else ": no batch is planned, or its entries were deleted"
        )
        return Absent(reason=f"the offset log is empty{never}")
    if planned in seen.entries.damaged_offsets:
        return seen.entries.damaged_offsets[planned]
    offsets = {source.name: source.offset for source in seen.sources}
    return Known(value=offsets, read_from=(f"offsets/{planned}",))


def find_sink(seen: Observations) -> Fact[str]:
    """Only records, an event log, and a commit that names its sinks tell it."""
    if seen.told.sink is not None:
        return seen.told.sink
    for batch in sorted(seen.entries.commits, reverse=True):
        for sink in seen.entries.commits[batch].sinks:
            if sink.active:
                told = " ".join(part for part in (sink.provider, sink.name) if part)
                return Known(value=told, read_from=(f"commits/{batch}",))
    return _explain_unknown(seen)


def _explain_unknown(seen: Observations) -> Unknown:
    silent = seen.told.log_silent
    if silent:
        return Unknown(reason=f"{_NOT_TOLD}, and the event log given {silent}")
    return Unknown(reason=_NOT_TOLD + (_NOR_RUNS if seen.told.starts else _WOULD_TELL))


def find_output_mode(seen: Observations) -> Fact[str]:
    """Only records, an event log, and an operator that keeps it tell it."""
    if seen.told.output_mode is not None:
        return seen.told.output_mode
    for operator in seen.state.operators:
        mode = summary.find_output_mode(operator)
        if mode is not None:
            read_from = operator.name.read_from if isinstance(operator.name, Known) else ()
            return Known(value=mode.lower(), read_from=read_from)
    return _explain_unknown(seen)


def find_operators(seen: Observations) -> Fact[tuple[str, ...]]:
    """The stateful operators, by name."""
    fact = summary.find_operator_names(seen.state.operators, seen.tree)
    recorded = seen.told
    untold = isinstance(fact, Absent | UnreadableFile)
    if untold and recorded.operators and recorded.query_id:
        return Known(value=recorded.operators, read_from=recorded.query_id.read_from)
    return fact


def find_provider(seen: Observations, latest: tuple[BatchId, OffsetEntry] | None) -> Fact[str]:
    """The provider of the state stores."""
    settings, path = (latest[1].settings, f"offsets/{latest[0]}") if latest else ({}, "")
    return summary.find_provider(seen.tree, settings, path)


def find_spark_version(
    seen: Observations,
    versions: VersionRange | Runtime | Unknown,
    latest: tuple[BatchId, OffsetEntry] | None,
) -> Fact[str]:
    """As records tell it, or else the versions that it can be, or whose Spark it is."""
    if seen.told.spark_version is not None:
        return seen.told.spark_version
    if isinstance(versions, Unknown) or latest is None:
        return _PAST
    newer = [file for batch, file in seen.entries.damaged_offsets.items() if batch > latest[0]]
    unread = [f"`{file.path}`, which is newer, cannot be read" for file in newer[:1]]
    return Known(
        value=versions.name if isinstance(versions, Runtime) else str(versions),
        read_from=(f"offsets/{latest[0]}",),
        inferred="; ".join((*versions.reasons, *unread)),
    )


def narrow_versions(
    seen: Observations, latest: tuple[BatchId, OffsetEntry] | None
) -> VersionRange | Runtime | Unknown:
    """The versions of Spark that write such a checkpoint, or the vendor whose Spark did."""
    if latest is None:
        return _PAST
    _, entry = latest
    sure = {one.kind for one in seen.sources if not one.other_kinds}
    return detect_runtime(entry.settings, sure) or infer_version_range(
        entry.settings, _find_formats(seen), timestamp_ms=entry.timestamp_ms
    )


def _find_formats(seen: Observations) -> set[Format]:
    offsets, commits = seen.entries.offsets.values(), seen.entries.commits.values()
    watermarks = [entry.next_watermark_ms for entry in commits]
    kinds = {kind for kind, _ in seen.tree.kinds_of_state}
    versions = {f"offsets {entry.version}" for entry in offsets}
    versions |= {f"commits {entry.version}" for entry in commits}
    versions |= {f"schema {version}" for version in seen.state.schema_versions}
    tests: tuple[tuple[bool, Format], ...] = (
        ("offsets 2" in versions, Format.OFFSET_LOG_2),
        ("commits 2" in versions, Format.COMMIT_LOG_2),
        ("commits 3" in versions, Format.COMMIT_LOG_3),
        (any(isinstance(one, Unknown) for one in watermarks), Format.COMMIT_WITHOUT_WATERMARK),
        (any(isinstance(one, int) for one in watermarks), Format.COMMIT_WITH_WATERMARK),
        (FileKind.OPERATOR_METADATA in seen.tree.amounts, Format.OPERATOR_METADATA),
        (bool(versions & {"schema 1", "schema 2"}), Format.STATE_SCHEMA),
        ("schema 3" in versions, Format.STATE_SCHEMA_3),
        (FileKind.STATE_ZIP in kinds, Format.ROCKSDB_ZIP),
        (FileKind.STATE_CHANGELOG in kinds, Format.CHANGELOG),
        (any(unique for _, unique in seen.tree.kinds_of_state), Format.VERSIONED_STATE),
        (FileKind.SPARK_CHECKSUM in kinds, Format.SPARK_CHECKSUM),
        (seen.state.metadata_version == _SECOND, Format.ROCKSDB_METADATA_2),
    )
    return {found for holds, found in tests if holds}


def find_restart_history(seen: Observations) -> Fact[tuple[Start, ...]]:
    """Every start that was recorded, and signs of those that were not."""
    recorded = tuple(seen.told.starts.values())
    known = {start.first_batch for start in recorded}
    signs = tuple(
        sign for sign in restarts.find_signs(seen.entries.offsets) if sign.first_batch not in known
    )
    if recorded:
        files = dict.fromkeys(start.read_from for start in recorded)
        return Known(value=recorded + signs, read_from=tuple(files))
    if not seen.entries.offsets:
        return Unknown(reason="no run record, no event log, and no offset entry can be read")
    if not any(one.settings or one.timestamp_ms > 0 for one in seen.entries.offsets.values()):
        reason = "the offset log holds no times and no settings, as in continuous mode"
        return Unknown(reason=f"no run record and no event log, and {reason}")
    first, last = min(seen.entries.offsets), max(seen.entries.offsets)
    return Known(
        value=signs,
        read_from=tuple(dict.fromkeys((f"offsets/{first}", f"offsets/{last}"))),
        inferred=(
            f"no run record, and the event log given {seen.told.log_silent}"
            if seen.told.log_silent
            else "no run record and no event log"
        )
        + ": only what the times and settings of the offset log show, which misses restarts that"
        " were quick",
    )
