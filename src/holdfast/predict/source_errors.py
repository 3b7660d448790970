"""Errors that the logs of file sources, and offsets, make Spark raise: Evidence -> StartError."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from holdfast.model.evidence import Evidence, SourceFolderKind, SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry
from holdfast.model.restart import Stage, StartError
from holdfast.model.source_offset import RatePartitionsOffset
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import foreign_offsets, source_log
from holdfast.spark import exceptions

_MOST_CHECKED = 10_000
_NOT_FOUND = ("FileNotFoundException",)
_V4_2 = SparkVersion(4, 2)


def find_in_log(name: str, log: SourceLog, spark: SparkVersion) -> Iterator[StartError]:
    """Yield what stops Spark when it creates a source.

    The source reads its log from the last compacted entry on.
    """
    classes = _NOT_FOUND if spark >= _V4_2 else exceptions.STATE_ERROR
    needed = source_log.find_required(log)
    folder = f"sources/{name}"
    latest = needed.stop - 1
    if needed and source_log.find_absent(log, range(latest, latest + 1)):
        file = f"{folder}/{source_log.name_entry(log, latest)}"
        yield exceptions.make_error("", _NOT_FOUND, f"`{file}` is missing", file)
    newest_first = sorted(log.damaged, key=lambda damaged: damaged.path != f"{folder}/{latest}")
    for damaged in newest_first:
        yield exceptions.make_damage_error(damaged, exact=False)
    for offset in source_log.find_absent(log, needed):
        file = f"{folder}/{source_log.name_entry(log, offset)}"
        yield exceptions.make_error("", classes, f"`{file}` is missing", file)


def find_in_ranges(
    evidence: Evidence,
    before: OffsetEntry,
    end: OffsetEntry,
    *,
    batch: BatchId | Unknown = exceptions.NO_BATCH,
) -> Iterator[StartError]:
    """Yield the files of a range that the source's log does not have.

    Spark asks for a committed range as well, when the query starts; for the range of a batch, when
    the batch runs.
    """
    stage = Stage.START if isinstance(batch, Unknown) else Stage.PLANNING
    starts = {line.source: line.offset for line in before.sources}
    folders = source_log.map_folders(evidence)
    for line in end.sources:
        name = line.source
        log = source_log.find(evidence, name)
        last = source_log.read_offset(line.offset, log)
        if last is None:
            continue
        start = source_log.read_offset(starts.get(name), log)
        first = 0 if start is None else start + 1
        if first > last + 1:
            reason = f"source {name} goes back from log offset {first - 1} to {last}"
            yield exceptions.make_error(
                "", ("AssertionError",), reason, f"sources/{name}", stage=stage, batch=batch
            )
        wanted = range(max(first, last - _MOST_CHECKED), last + 1)
        folder = folders.get(name, name)
        if isinstance(folder, str):
            yield from _find_in_files(evidence, folder, wanted, stage, batch)


def find_misread(
    evidence: Evidence,
    entries: Mapping[BatchId, OffsetEntry],
    *,
    kinds: Collection[SourceFolderKind] = tuple(SourceFolderKind),
    batch: BatchId | Unknown = exceptions.NO_BATCH,
) -> Iterator[StartError]:
    """Yield the lines of these entries that the sources beside them cannot read as offsets."""
    for number, entry in entries.items():
        for foreign in foreign_offsets.find(evidence, entry):
            if foreign.folder_kind not in kinds:
                continue
            maker = foreign_offsets.MAKERS[foreign.folder_kind]
            kind = f"an offset of {foreign.looks_like}" if foreign.looks_like else "no valid offset"
            error = exceptions.make_error(
                "",
                foreign_offsets.ERRORS[foreign.folder_kind],
                f"`offsets/{number}` has {kind} for source {foreign.source}, but"
                f" `sources/{foreign.folder}` was made by {maker}",
                f"offsets/{number}",
                stage=Stage.START if isinstance(batch, Unknown) else Stage.PLANNING,
                batch=batch,
            )
            yield replace(error, unless=foreign.unless)


def _find_in_files(
    evidence: Evidence, folder: str, wanted: range, stage: Stage, batch: BatchId | Unknown
) -> Iterator[StartError]:
    log = evidence.source_logs.get(folder, source_log.EMPTY)
    for offset in source_log.find_unknown(log, wanted):
        file = f"sources/{folder}/{source_log.name_entry(log, offset)}"
        reason = f"`{file}` is missing"
        yield exceptions.make_error(
            "", exceptions.STATE_ERROR, reason, file, stage=stage, batch=batch
        )
    files = {f"sources/{folder}/{source_log.name_entry(log, offset)}" for offset in wanted}
    for unreadable in evidence.unreadable:
        if unreadable.path in files:
            yield exceptions.make_damage_error(unreadable, exact=False, stage=stage)


def find_in_epochs(evidence: Evidence) -> Iterator[StartError]:
    """Yield the offsets of continuous mode that a micro-batch cannot read: those of rate."""
    for source in evidence.sources:
        if isinstance(source.offset, RatePartitionsOffset):
            reason = (
                "the offset of the rate source has one number per partition, and a micro-batch"
                " expects one number"
            )
            path = f"offsets/{source.batch}"
            yield exceptions.make_error("", ("NumberFormatException",), reason, path)


def find_logs_behind(evidence: Evidence, batch: BatchId, end: OffsetEntry) -> Iterator[StartError]:
    """Yield the sources whose log has lost entries.

    Such a source counts on from a lower number, and the range goes backwards.
    """
    folders = source_log.map_folders(evidence)
    for line in end.sources:
        folder = folders.get(line.source, line.source)
        if isinstance(folder, Unknown):
            continue
        log = evidence.source_logs.get(folder, source_log.EMPTY)
        last = source_log.read_offset(line.offset, evidence.source_logs.get(folder))
        if last is not None and source_log.find_latest(log) < last - 1:
            reason = (
                f"the log of source {line.source} ends at {source_log.find_latest(log)}, but"
                f" `offsets/{batch - 1}` is at {last}"
            )
            yield exceptions.make_error(
                "", ("AssertionError",), reason, f"sources/{folder}",
                stage=Stage.PLANNING, batch=batch,
            )  # fmt: skip
