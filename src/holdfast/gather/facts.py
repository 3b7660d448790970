"""Everything that was read -> the nine facts, each with the files that say so.

A fact is known, absent, unreadable or unknown. An inferred fact says what it is inferred from.
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

_NOT_IN_CHECKPOINT = "a checkpoint does not contain it"
_WOULD_CONTAIN = "; a run record or `--event-log PATH` would"
_NOT_IN_RUNS = ", and neither do the records and logs of its runs"
_SECOND = 2
_NO_ENTRY = Unknown(reason="no offset entry can be read")


@dataclass(slots=True)
class Observations:
    """Everything that was read, before it becomes evidence."""

    tree: tree.CheckpointTree
    entries: tail.Entries
    records: runs.RunRecords
    history: History
    query_id: Fact[QueryId]
    state: operators.StatefulOperators
    sources: tuple[SourceEvidence, ...]
    unreadable: list[UnreadableFile]
    source_logs: dict[str, SourceLog]


def find_query_id(observations: Observations) -> Fact[QueryId]:
    """Return the query id in `metadata`, or else that of the newest run."""
    own, recorded = observations.query_id, observations.history.query_id
    if isinstance(own, Known) or recorded is None:
        return own
    source = (
        "the newest run record has it"
        if observations.records.events
        else "the event log has a query whose plan names this checkpoint location"
    )
    reason = f"`metadata` does not give it ({own.reason}); {source}"
    return Known(value=recorded.value, read_from=recorded.read_from, inferred=reason)


def find_source_offsets(observations: Observations, batches: Batches) -> Fact[Mapping[str, Offset]]:
    """Return the position of each source."""
    planned, unlisted = batches.last_planned, batches.unlisted_log("offsets")
    if unlisted is not None:
        return unlisted
    if planned is None:
        reason = "the offset log is empty"
        if batches.last_committed is None:
            reason += ": no batch is planned, or the entries were deleted"
        return Absent(reason=reason)
    if planned in observations.entries.damaged_offsets:
        return observations.entries.damaged_offsets[planned]
    offsets = {source.name: source.offset for source in observations.sources}
    return Known(value=offsets, read_from=(f"offsets/{planned}",))


def find_sink(observations: Observations) -> Fact[str]:
    """Return the sink; only run records, an event log, or a commit with sinks contain it."""
    if observations.history.sink is not None:
        return observations.history.sink
    for batch in sorted(observations.entries.commits, reverse=True):
        for sink in observations.entries.commits[batch].sinks:
            if sink.active:
                name = " ".join(part for part in (sink.provider, sink.name) if part)
                return Known(value=name, read_from=(f"commits/{batch}",))
    return _explain_unknown(observations)


def _explain_unknown(observations: Observations) -> Unknown:
    silence = observations.history.log_silent
    if silence:
        return Unknown(reason=f"{_NOT_IN_CHECKPOINT}, and the given event log {silence}")
    return Unknown(
        reason=_NOT_IN_CHECKPOINT
        + (_NOT_IN_RUNS if observations.history.starts else _WOULD_CONTAIN)
    )


def find_output_mode(observations: Observations) -> Fact[str]:
    """Return the output mode; only run records, an event log, or some operators contain it."""
    if observations.history.output_mode is not None:
        return observations.history.output_mode
    for operator in observations.state.operators:
        mode = summary.find_output_mode(operator)
        if mode is not None:
            read_from = operator.name.read_from if isinstance(operator.name, Known) else ()
            return Known(value=mode.lower(), read_from=read_from)
    return _explain_unknown(observations)


def find_operators(observations: Observations) -> Fact[tuple[str, ...]]:
    """Return the names of the stateful operators."""
    fact = summary.find_operator_names(observations.state.operators, observations.tree)
    history = observations.history
    has_no_names = isinstance(fact, Absent | UnreadableFile)
    if has_no_names and history.operators and history.query_id:
        return Known(value=history.operators, read_from=history.query_id.read_from)
    return fact


def find_provider(
    observations: Observations, latest: tuple[BatchId, OffsetEntry] | None
) -> Fact[str]:
    """Return the state store provider."""
    settings, path = (latest[1].settings, f"offsets/{latest[0]}") if latest else ({}, "")
    return summary.find_provider(observations.tree, settings, path)


def find_spark_version(
    observations: Observations,
    versions: VersionRange | Runtime | Unknown,
    latest: tuple[BatchId, OffsetEntry] | None,
) -> Fact[str]:
    """Return the recorded version, or else the possible versions, or the vendor's runtime."""
    if observations.history.spark_version is not None:
        return observations.history.spark_version
    if isinstance(versions, Unknown) or latest is None:
        return _NO_ENTRY
    newer = [
        file for batch, file in observations.entries.damaged_offsets.items() if batch > latest[0]
    ]
    unread = [f"`{file.path}`, which is newer, cannot be read" for file in newer[:1]]
    return Known(
        value=versions.name if isinstance(versions, Runtime) else str(versions),
        read_from=(f"offsets/{latest[0]}",),
        inferred="; ".join((*versions.reasons, *unread)),
    )


def narrow_versions(
    observations: Observations, latest: tuple[BatchId, OffsetEntry] | None
) -> VersionRange | Runtime | Unknown:
    """Return the Spark versions that write such a checkpoint, or the vendor's runtime that did."""
    if latest is None:
        return _NO_ENTRY
    _, entry = latest
    sure = {source.kind for source in observations.sources if not source.other_kinds}
    return detect_runtime(entry.settings, sure) or infer_version_range(
        entry.settings, _find_formats(observations), timestamp_ms=entry.timestamp_ms
    )


def _find_formats(observations: Observations) -> set[Format]:
    offsets, commits = observations.entries.offsets.values(), observations.entries.commits.values()
    watermarks = [entry.next_watermark_ms for entry in commits]
    kinds = {kind for kind, _ in observations.tree.kinds_of_state}
    versions = {f"offsets {entry.version}" for entry in offsets}
    versions |= {f"commits {entry.version}" for entry in commits}
    versions |= {f"schema {version}" for version in observations.state.schema_versions}
    tests: tuple[tuple[bool, Format], ...] = (
        ("offsets 2" in versions, Format.OFFSET_LOG_2),
        ("commits 2" in versions, Format.COMMIT_LOG_2),
        ("commits 3" in versions, Format.COMMIT_LOG_3),
        (any(isinstance(ms, Unknown) for ms in watermarks), Format.COMMIT_WITHOUT_WATERMARK),
        (any(isinstance(ms, int) for ms in watermarks), Format.COMMIT_WITH_WATERMARK),
        (FileKind.OPERATOR_METADATA in observations.tree.amounts, Format.OPERATOR_METADATA),
        (bool(versions & {"schema 1", "schema 2"}), Format.STATE_SCHEMA),
        ("schema 3" in versions, Format.STATE_SCHEMA_3),
        (FileKind.STATE_ZIP in kinds, Format.ROCKSDB_ZIP),
        (FileKind.STATE_CHANGELOG in kinds, Format.CHANGELOG),
        (any(unique for _, unique in observations.tree.kinds_of_state), Format.VERSIONED_STATE),
        (FileKind.SPARK_CHECKSUM in kinds, Format.SPARK_CHECKSUM),
        (observations.state.metadata_version == _SECOND, Format.ROCKSDB_METADATA_2),
    )
    return {format_ for is_present, format_ in tests if is_present}


def find_restart_history(observations: Observations) -> Fact[tuple[Start, ...]]:
    """Return every recorded start, and signs of starts that were not recorded."""
    entries, history = observations.entries.offsets, observations.history
    recorded = tuple(history.starts.values())
    known = {start.first_batch for start in recorded}
    signs = tuple(sign for sign in restarts.find_signs(entries) if sign.first_batch not in known)
    if recorded:
        files = dict.fromkeys(start.read_from for start in recorded)
        return Known(value=recorded + signs, read_from=tuple(files))
    if not entries:
        return Unknown(reason="no run record, no event log, and no offset entry can be read")
    if not any(entry.settings or entry.timestamp_ms > 0 for entry in entries.values()):
        reason = "the offset log has no times and no settings, as in continuous mode"
        return Unknown(reason=f"no run record and no event log, and {reason}")
    first, last = min(entries), max(entries)
    missing = (
        f"no run record, and the given event log {history.log_silent}"
        if history.log_silent
        else "no run record and no event log"
    )
    return Known(
        value=signs,
        read_from=tuple(dict.fromkeys((f"offsets/{first}", f"offsets/{last}"))),
        inferred=f"{missing}: only the times and settings in the offset log show restarts, and they"
        " do not show quick ones",
    )
