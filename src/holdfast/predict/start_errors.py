"""Errors that Spark raises on its way to the first batch, in its order: Evidence -> StartError.

Spark reads `metadata` before the query has a thread. Then it creates every source, which reads its
own log. Then it reads the latest entries of both logs, and the offset entry before the latest.
"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence, SourceFolderKind
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.offsets import OffsetEntry
from holdfast.model.restart import Stage, StartError, StartOptions
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import source_errors, source_log
from holdfast.spark import exceptions, pinned, state_partitions

NEEDS_ENTRY_BEFORE_SINCE = SparkVersion(2, 2)
"""From here on a start fails without the offset entry before the latest."""
_V4_0, _V4_1, _V4_2 = SparkVersion(4, 0), SparkVersion(4, 1), SparkVersion(4, 2)
CHECKS_COMMITS_SINCE = SparkVersion(3, 1)
"""From here on Spark checks whether the commit that it is about to write exists already."""
NEEDS_SETTINGS_SINCE = SparkVersion(2, 4)
"""From here on a micro-batch fails if its offset entry has no second line, for the watermark."""
_MOST_CHECKED = 1000
_BEGINNING = OffsetEntry(version=1, watermark_ms=0, timestamp_ms=0, settings={}, sources=())


def find_at_start(evidence: Evidence, start: StartOptions) -> Iterator[StartError]:
    """Yield what stops a start before it touches any batch."""
    yield from _find_in_metadata(evidence, start.spark)
    for name, log in evidence.source_logs.items():
        if log.is_file_log:
            yield from source_errors.find_in_log(name, log, start.spark)
    yield from _find_in_latest_entries(evidence, start.spark)
    if start.spark >= _V4_2 and not start.asynchronous:
        yield from _find_repartition(evidence)
    if evidence.batches.last_planned is None:
        yield from _find_in_new_query(evidence, start.spark)
    else:
        yield from _find_in_offset_log(evidence, start, evidence.batches.last_planned)


def find_in_epochs(evidence: Evidence, start: StartOptions) -> Iterator[StartError]:
    """Yield what stops a start in continuous mode.

    It reads the latest commit, and the offset entry of the same epoch.
    """
    yield from _find_in_metadata(evidence, start.spark)
    committed = evidence.batches.last_committed
    if committed is None:
        return
    yield from _find_in_commit_entry(evidence, start.spark, committed)
    path = f"offsets/{committed}"
    if not _has_offset_entry(evidence, committed):
        reason = f"epoch {committed} is committed, but `{path}` is missing"
        yield exceptions.make_error("", exceptions.STATE_ERROR, reason, path)
    yield from _find_in_offset_entry(evidence, start.spark, committed)
    late = exceptions.find_unreadable(evidence, path)
    if late is not None:
        yield exceptions.make_damage_error(late, exact=False)


def _find_in_metadata(evidence: Evidence, spark: SparkVersion) -> Iterator[StartError]:
    unreadable = exceptions.find_unreadable(evidence, "metadata")
    if unreadable is not None:
        classes = (*exceptions.JSON_ERRORS, "IllegalArgumentException", "NullPointerException")
        yield exceptions.make_error(
            "", classes, f"`metadata` cannot be read: {unreadable.reason}", "metadata"
        )
    if FileKind.METADATA in evidence.files:
        return
    batches = evidence.batches
    has_batches = batches.last_planned is not None or batches.last_committed is not None
    if spark >= _V4_2 and has_batches:
        yield exceptions.make_error(
            "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            ("SparkRuntimeException", "SparkException"),
            "there are batches but no file `metadata`",
            "metadata",
        )
    if "metadata" in evidence.leftover_checksums:
        yield exceptions.make_checksum_error("metadata", exceptions.NO_BATCH, Stage.START)


def _find_in_latest_entries(evidence: Evidence, spark: SparkVersion) -> Iterator[StartError]:
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if planned is not None:
        yield from _find_in_offset_entry(evidence, spark, planned)
    if committed is not None:
        yield from _find_in_commit_entry(evidence, spark, committed)


def _find_in_offset_entry(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    path = f"offsets/{batch}"
    unreadable = exceptions.find_unreadable(evidence, path)
    entry = evidence.offset_entries.get(batch)
    version = entry.version if entry is not None else _read_version(unreadable)
    if version > 1 and spark < _V4_2:
        yield exceptions.make_version_error(path, version, "MAX_SUPPORTED_VERSION", spark)
    elif unreadable is not None and not exceptions.is_late(unreadable):
        yield exceptions.make_damage_error(unreadable, exact=False)


def _find_in_commit_entry(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    path = f"commits/{batch}"
    unreadable = exceptions.find_unreadable(evidence, path)
    entry = evidence.commit_entries.get(batch)
    exact = _V4_0 <= spark < _V4_2
    version = entry.version if entry is not None else _read_version(unreadable)
    # 4.0 and 4.1 read version 2 if the session sets state format 2.
    with_ids = exact and version == 2 and (entry is None or bool(entry.state_ids))  # noqa: PLR2004
    if version > 1 and spark < _V4_2 and not with_ids:
        condition = "EXACT_MATCH_VERSION" if exact else "MAX_SUPPORTED_VERSION"
        yield exceptions.make_version_error(path, version, condition, spark)
    elif unreadable is not None:
        yield exceptions.make_damage_error(unreadable, exact=exact)


def _read_version(unreadable: UnreadableFile | None) -> int:
    """Return the version of an entry that could not be read below its first line."""
    version = "" if unreadable is None else unreadable.reason.rpartition(", in version ")[2]
    return int(version) if version.isdecimal() else 1


def _find_repartition(evidence: Evidence) -> Iterator[StartError]:
    """Yield an error if a pending batch has a different number of partitions than the one before.

    An unfinished repartition of the state leaves this behind. Spark checks for it from 4.2 on.
    """
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if planned is None or committed is None or not 0 < planned > committed:
        return
    before = BatchId(planned - 1)
    path = f"offsets/{before}"
    unreadable = exceptions.find_unreadable(evidence, path)
    if unreadable is not None and not exceptions.is_late(unreadable):
        yield exceptions.make_damage_error(unreadable, exact=False)
    entries = [evidence.offset_entries.get(batch) for batch in (before, planned)]
    if entries[0] is None and unreadable is None:
        reason = f"`{path}`, the entry before the latest, is missing"
        yield exceptions.make_error("", ("IllegalArgumentException",), reason, path)
    known = [entry for entry in entries if entry is not None]
    # Spark 2.2 and older pin nothing, but write their time there.
    if any(entry.lacks_settings for entry in known):
        reason = f"the second line of `offsets/{planned}` or `{path}` is empty"
        yield exceptions.make_error("", ("IllegalArgumentException",), reason, path)
    counts = [entry.settings.get(pinned.SHUFFLE_PARTITIONS) for entry in known]
    if None in counts and _read_last_version(evidence) == state_partitions.FORGETFUL_RELEASE:
        reason = f"`{pinned.SHUFFLE_PARTITIONS}` is not in `offsets/{planned}` or `{path}`"
        yield exceptions.make_error("", ("NoSuchElementException",), reason, path)
    elif None not in counts and len(set(counts)) > 1:
        was, now = counts
        yield exceptions.make_error(
            exceptions.REPARTITION,
            ("SparkException",),
            f"batch {planned} is planned with {now} partitions instead of {was}, and not committed",
            f"offsets/{planned}",
        )


def _read_last_version(evidence: Evidence) -> str:
    version = evidence.spark_version
    return version.value if isinstance(version, Known) and not version.inferred else ""


def _find_in_new_query(evidence: Evidence, spark: SparkVersion) -> Iterator[StartError]:
    committed = evidence.batches.last_committed
    if spark >= _V4_2 and committed is not None:
        reason = f"batches up to {committed} are committed, but there is no offset entry"
        yield exceptions.make_error("", ("AssertionError",), reason, f"commits/{committed}")
    if spark >= _V4_1 and evidence.nonempty_folders:
        folder = min(evidence.nonempty_folders)
        yield exceptions.make_error(
            "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
            ("StateStoreCheckpointLocationNotEmpty",),
            f"no batch is planned, but `{folder}` is not empty",
            folder,
        )


def _find_in_offset_log(
    evidence: Evidence, start: StartOptions, planned: BatchId
) -> Iterator[StartError]:
    """Yield what is wrong with the latest entry, the one before it, and the range between them."""
    late = exceptions.find_unreadable(evidence, f"offsets/{planned}")
    if late is not None and late.reason.startswith("names no source"):
        yield exceptions.make_damage_error(late, exact=False)
    end = evidence.offset_entries.get(planned)
    if end is not None and any(line.offset == "" for line in end.sources):
        reason = f"an empty line in `offsets/{planned}` counts as one more source"
        yield exceptions.make_error("", ("AssertionError",), reason, f"offsets/{planned}")
    earlier = find_entry_before(evidence, planned, start)
    if earlier is not None:
        yield from _find_in_entry_before(evidence, earlier)
    if late is not None:
        yield exceptions.make_damage_error(late, exact=False)
    before = _BEGINNING if earlier is None else evidence.offset_entries.get(earlier)
    if end is None or before is None:
        return
    both = {before.version, end.version} == {1}
    if earlier is not None and both and len(before.sources) != len(end.sources):
        reason = (
            f"`offsets/{earlier}` has {len(before.sources)} sources, and `offsets/{planned}` has"
            f" {len(end.sources)}"
        )
        yield exceptions.make_error("", ("AssertionError",), reason, f"offsets/{earlier}")
    if evidence.batches.last_committed == planned:
        # Spark asks a file source for its last range again, and other sources for a new one.
        entries = {planned: end} if earlier is None else {planned: end, earlier: before}
        yield from source_errors.find_misread(evidence, entries, kinds=(SourceFolderKind.FILES,))
        yield from source_errors.find_in_ranges(evidence, before, end)
        yield from find_bare_entry(evidence, start.spark, planned)


def find_bare_entry(
    evidence: Evidence, spark: SparkVersion, planned: BatchId, *, rerun: bool = False
) -> Iterator[StartError]:
    """Yield an error if the latest offset entry has no second line, as in continuous mode.

    Spark then has no watermark to begin with. It needs the watermark at once if the batch is
    committed. If the batch runs again, it needs it after the sink has written.
    """
    entry = evidence.offset_entries.get(planned)
    if entry is not None and entry.lacks_settings and spark >= NEEDS_SETTINGS_SINCE:
        yield exceptions.make_error(
            "",
            exceptions.NULL,
            f"the second line of `offsets/{planned}` is empty",
            f"offsets/{planned}",
            stage=Stage.COMMITTING if rerun else Stage.START,
            batch=planned if rerun else exceptions.NO_BATCH,
        )


def _find_in_entry_before(evidence: Evidence, batch: BatchId) -> Iterator[StartError]:
    path = f"offsets/{batch}"
    unreadable = exceptions.find_unreadable(evidence, path)
    if unreadable is not None:
        yield exceptions.make_damage_error(unreadable, exact=False)
    elif batch not in evidence.offset_entries:
        reason = f"`{path}`, the entry before the latest, is missing"
        yield exceptions.make_error("", exceptions.STATE_ERROR, reason, path)


def find_entry_before(evidence: Evidence, planned: BatchId, start: StartOptions) -> BatchId | None:
    """Return the offset entry at which a batch begins, or None for the beginning.

    It has the number before; with asynchronous tracking it is the entry before on disk. If it is
    missing, Spark 2.1 begins at the beginning.
    """
    if planned == 0 or (
        start.spark < NEEDS_ENTRY_BEFORE_SINCE and not _has_offset_entry(evidence, planned - 1)
    ):
        return None
    if not start.asynchronous:
        return BatchId(planned - 1)
    spans = evidence.batches.offset_spans
    below = [min(span.last, planned - 1) for span in spans if span.first < planned]
    return BatchId(max(below)) if below else None


def _has_offset_entry(evidence: Evidence, batch: int) -> bool:
    return spans_contain(evidence.batches.offset_spans, batch)


def find_blocked_entries(evidence: Evidence, batch: BatchId) -> Iterator[StartError]:
    """Yield the files that a new batch cannot write because an old checksum is in their place."""
    for name, log in evidence.source_logs.items():
        path = f"sources/{name}/{source_log.find_latest(log) + 1}"
        if log.is_file_log and path in evidence.leftover_checksums:
            yield exceptions.make_checksum_error(path, batch, Stage.START)
    if f"offsets/{batch}" in evidence.leftover_checksums:
        # Spark has moved the entry into place before it fails to move the checksum.
        yield exceptions.make_checksum_error(f"offsets/{batch}", batch, Stage.PLANNING)


def find_at_commit(evidence: Evidence, batch: BatchId, spark: SparkVersion) -> Iterator[StartError]:
    """Yield an error if the commit of the batch exists already, or a checksum of it."""
    path = f"commits/{batch}"
    checks = spark >= CHECKS_COMMITS_SINCE
    if checks and spans_contain(evidence.batches.commit_spans, batch):
        yield exceptions.make_error(
            "CONCURRENT_STREAM_LOG_UPDATE",
            ("SparkException",),
            f"`{path}` exists before the batch has run",
            path,
            stage=Stage.COMMITTING,
            batch=batch,
        )
    if path in evidence.leftover_checksums:
        yield exceptions.make_checksum_error(path, batch, Stage.COMMITTING)


def find_in_later_batches(
    evidence: Evidence, batch: BatchId, spark: SparkVersion
) -> Iterator[StartError]:
    """Yield the same errors for the batches after this one."""
    last = max((span.last for span in evidence.batches.commit_spans), default=-1)
    with_checksum = [
        int(path.partition("/")[2])
        for path in evidence.leftover_checksums
        if path.startswith(("commits/", "offsets/"))
    ]
    for later in range(batch + 1, min(max([last, *with_checksum]), batch + _MOST_CHECKED) + 1):
        if f"offsets/{later}" in evidence.leftover_checksums:
            yield exceptions.make_checksum_error(f"offsets/{later}", BatchId(later), Stage.PLANNING)
        yield from find_at_commit(evidence, BatchId(later), spark)
