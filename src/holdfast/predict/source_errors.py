"""Stage 3: the logs of file sources, and offsets -> the errors that they make Spark raise."""

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

_MOST_LOOKED_AT = 10_000
_NOT_FOUND = ("FileNotFoundException",)
_V4_2 = SparkVersion(4, 2)


def find_in_log(name: str, log: SourceLog, spark: SparkVersion) -> Iterator[StartError]:
    """What stops a source when it is made: it reads its log from the last compacted entry on."""
    missing = _NOT_FOUND if spark >= _V4_2 else exceptions.STATE_ERROR
    needed = source_log.find_required(log)
    folder = f"sources/{name}"
    latest = needed.stop - 1
    if needed and source_log.find_absent(log, range(latest, latest + 1)):
        file = f"{folder}/{source_log.name_entry(log, latest)}"
        yield exceptions.make_error("", _NOT_FOUND, f"`{file}` is missing", file)
    newest_first = sorted(log.damaged, key=lambda one: one.path != f"{folder}/{latest}")
    for damaged in newest_first:
        yield exceptions.make_damage_error(damaged, exact=False)
    for offset in source_log.find_absent(log, needed):
        file = f"{folder}/{source_log.name_entry(log, offset)}"
        yield exceptions.make_error("", missing, f"`{file}` is missing", file)


def find_in_ranges(
    evidence: Evidence,
    before: OffsetEntry,
    end: OffsetEntry,
    *,
    batch: BatchId | Unknown = exceptions.NO_BATCH,
) -> Iterator[StartError]:
    """The files of a range must be in the source's log.

    A committed range is asked for as well, when the query starts; that of a batch, when it runs.
    """
    stage = Stage.START if isinstance(batch, Unknown) else Stage.PLANNING
    starts = {one.source: one.offset for one in before.sources}
    folders = source_log.map_folders(evidence)
    for source in end.sources:
        log = source_log.find(evidence, source.source)
        last = source_log.read_offset(source.offset, log)
        if last is None:
            continue
        start = source_log.read_offset(starts.get(source.source), log)
        first = 0 if start is None else start + 1
        name = source.source
        if first > last + 1:
            reason = f"source {name} goes back from log offset {first - 1} to {last}"
            yield exceptions.make_error(
                "", ("AssertionError",), reason, f"sources/{name}", stage=stage, batch=batch
            )
        wanted = range(max(first, last - _MOST_LOOKED_AT), last + 1)
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
    """Lines of these entries that are no offsets of the sources whose folders lie beside them."""
    for number, entry in entries.items():
        for one in foreign_offsets.find(evidence, entry):
            if one.folder_kind not in kinds:
                continue
            kind = f"an offset of {one.looks_like}" if one.looks_like else "no offset that it reads"
            found = exceptions.make_error(
                "",
                foreign_offsets.ERRORS[one.folder_kind],
                f"`offsets/{number}` has {kind} for source {one.source}, and"
                f" `sources/{one.folder}` was made by {foreign_offsets.MAKERS[one.folder_kind]}",
                f"offsets/{number}",
                stage=Stage.START if isinstance(batch, Unknown) else Stage.PLANNING,
                batch=batch,
            )
            yield replace(found, unless=one.unless)


def _find_in_files(
    evidence: Evidence, folder: str, wanted: range, stage: Stage, batch: BatchId | Unknown
) -> Iterator[StartError]:
    log = evidence.source_logs.get(folder, source_log.EMPTY)
    for offset in source_log.find_unknown(log, wanted):
        file = f"sources/{folder}/{source_log.name_entry(log, offset)}"
        missing = f"`{file}` is missing"
        yield exceptions.make_error(
            "", exceptions.STATE_ERROR, missing, file, stage=stage, batch=batch
        )
    files = {f"sources/{folder}/{source_log.name_entry(log, offset)}" for offset in wanted}
    for one in evidence.unreadable:
        if one.path in files:
            yield exceptions.make_damage_error(one, exact=False, stage=stage)


def find_in_epochs(evidence: Evidence) -> Iterator[StartError]:
    """Offsets of continuous mode that no micro-batch reads: those of rate."""
    for source in evidence.sources:
        if isinstance(source.offset, RatePartitionsOffset):
            reason = "the offset of rate is one for each partition, and in micro-batches one number"
            path = f"offsets/{source.batch}"
            yield exceptions.make_error("", ("NumberFormatException",), reason, path)


def find_logs_behind(evidence: Evidence, batch: BatchId, end: OffsetEntry) -> Iterator[StartError]:
    """A source whose log has lost entries counts anew from below, and the range goes backwards."""
    folders = source_log.map_folders(evidence)
    for source in end.sources:
        folder = folders.get(source.source, source.source)
        if isinstance(folder, Unknown):
            continue
        log = evidence.source_logs.get(folder, source_log.EMPTY)
        last = source_log.read_offset(source.offset, evidence.source_logs.get(folder))
        if last is not None and source_log.find_latest(log) < last - 1:
            reason = (
                f"the log of source {source.source} ends at {source_log.find_latest(log)}, and"
                f" `offsets/{batch - 1}` is at {last}"
            )
            yield exceptions.make_error(
                "", ("AssertionError",), reason, f"sources/{folder}",
                stage=Stage.PLANNING, batch=batch,
            )  # fmt: skip
