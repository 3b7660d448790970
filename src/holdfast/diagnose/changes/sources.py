"""Does the query read the same sources, in the same order?

An offset entry of version 1 has one line per source, by its position in the plan, without its kind
or name. In version 2 the line has the position as a number, or a name, and a source without an
offset has no line.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import UNDO, UNDO_OR_START_OVER
from holdfast.model.evidence import SourceEvidence
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, PlanSource
from holdfast.model.source_offset import KafkaOffset

_SHAPES = frozenset({"files", "Kafka", "Delta", "rate", "rate-micro-batch", "socket"})
_GLOB = frozenset("*?[{")
_NAMES = re.compile(r"[\w.,\- ]+")


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the number, kinds, order and targets of the sources."""
    sources, new = change.evidence.sources, change.new.sources
    if any(source.name for source in new):
        yield from _compare_named(change)
        return
    if _has_numbers(change):
        yield from _compare_numbers(change)
    elif len(sources) != len(new):
        yield difference.make_finding(
            Code.SOURCE_COUNT_CHANGED,
            Severity.BLOCKS,
            "Spark will refuse to start: the checkpoint has offsets for a different number of"
            " sources.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=", ".join(_describe_old(change, sources)),
            now=", ".join(_describe(source) for source in new),
            remedies=(
                UNDO_OR_START_OVER,
                "give the additional source a query of its own",
            ),
        )
        return
    changed = [
        (was, now)
        for place, was, now in _pair_sources(change)
        if _has_other_kind(was, now) or _read_recorded_kind(change, place) not in ("", now.kind)
    ]
    for was, now in changed:
        yield difference.make_finding(
            Code.SOURCE_KIND_CHANGED,
            Severity.BLOCKS,
            f"Spark will fail to read the offsets of source {was.name}: the kind of the source"
            " changed.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=was.kind,
            now=_describe(now),
            remedies=(UNDO_OR_START_OVER,),
        )
    if not changed:
        yield from _compare_targets(change)
        yield from _list_opaque(change)


def _has_numbers(change: QueryChange) -> bool:
    """Return whether the offsets are numbered by position; some numbers may be missing."""
    planned = change.evidence.batches.last_planned
    entry = None if planned is None else change.evidence.offset_entries.get(planned)
    return entry is not None and entry.version > 1


def _pair_sources(change: QueryChange) -> Iterator[tuple[int, SourceEvidence, PlanSource]]:
    """Yield the sources that have an offset, by position, as they were and as they will be."""
    by_name = {source.name: source for source in change.evidence.sources}
    for place, new in enumerate(change.new.sources):
        if str(place) in by_name:
            yield place, by_name[str(place)], new


def _compare_numbers(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare offsets of version 2: Spark ignores an offset without a source, and vice versa."""
    new, old = change.new.sources, change.old
    places = {str(place) for place in range(len(new))}
    beyond = [source for source in change.evidence.sources if source.name not in places]
    was = old.sources if old is not None else ()
    if beyond or (was and len(was) != len(new)):
        yield difference.make_finding(
            Code.SOURCE_COUNT_CHANGED,
            Severity.UNDEFINED,
            "Sources may lose their offsets or be read from the beginning: the number of sources"
            " changed. Spark gives each source the offset at its position, drops offsets that are"
            " left over, and reads a source without an offset from its beginning.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=", ".join(_describe(source) for source in was)
            or ", ".join(f"source {source.name}" for source in change.evidence.sources),
            now=", ".join(_describe(source) for source in new),
            remedies=(
                UNDO,
                "accept the change, if the sources before the added or removed one are the same",
            ),
        )
    elif not was:
        names = {source.name for source in change.evidence.sources}
        for place, source in enumerate(new):
            if str(place) not in names:
                yield NotAssessed(
                    question=f"whether source {place} ({_describe(source)}) is new",
                    reason=f"it has no offset yet, and {NOT_RECORDED.reason}",
                )


def _list_opaque(change: QueryChange) -> Iterator[NotAssessed]:
    for index, source in enumerate(change.new.sources):
        if source.kind not in _SHAPES:
            yield NotAssessed(
                question=f"whether the offsets of source {index} ({_describe(source)}) still mean"
                " the same",
                reason="only the code of the source knows what its offsets mean",
            )


def _compare_targets(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    new = change.new.sources
    if change.old is None or len(change.old.sources) != len(new):
        yield from _compare_offsets(change)
        return
    old = change.old.sources
    was, now = ([source.target for source in sources] for sources in (old, new))
    if was != now and sorted(was) == sorted(now):
        yield difference.make_finding(
            Code.SOURCES_SWAPPED,
            Severity.LOSES,
            "Each source will continue from the offsets of another one: the sources are in a"
            " different order.",
            where=difference.name_record(change),
            was=", ".join(was),
            now=", ".join(now),
            remedies=(f"{UNDO}: list the sources in the old order",),
        )
        return
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        if before.target != after.target:
            yield _make_target_finding(change, index, before, after)


def _make_target_finding(
    change: QueryChange, index: int, was: PlanSource, now: PlanSource
) -> Finding:
    severity, text = _explain_target(index, was, now)
    return difference.make_finding(
        Code.SOURCE_TARGET_CHANGED,
        severity,
        text,
        where=difference.name_record(change),
        was=was.target,
        now=now.target,
        remedies=(UNDO_OR_START_OVER,),
    )


def _explain_target(index: int, was: PlanSource, now: PlanSource) -> tuple[Severity, str]:
    if now.kind == "files" and not _GLOB & set(now.target):
        return (
            Severity.BLOCKS,
            (
                f"Spark will refuse to read source {index}: its path changed, and files of the old"
                " path are outside the new one."
            ),
        )
    if now.kind == "Delta":
        return (
            Severity.BLOCKS,
            (
                f"Delta will refuse to read source {index}: it is a different table, with a"
                " different id."
            ),
        )
    if now.kind == "Kafka":
        return _explain_topics(index, was, now)
    return (
        Severity.UNDEFINED,
        (
            f"Source {index} now reads from a different place, whose data does not continue the old"
            " data."
        ),
    )


def _explain_topics(index: int, was: PlanSource, now: PlanSource) -> tuple[Severity, str]:
    """Explain new topics; a pattern may match the same topics, so only names are compared."""
    named = _NAMES.fullmatch(was.target) and _NAMES.fullmatch(now.target)
    if not named or _split_topics(was.target) <= _split_topics(now.target):
        return (
            Severity.UNDEFINED,
            (
                f"Source {index} subscribes to different topics: Spark reads an added topic from"
                " its beginning."
            ),
        )
    if _read_option(now, "failondataloss").lower() == "false":
        return (
            Severity.LOSES,
            (
                f"Source {index} will never read the unread records of a removed topic, because"
                " `failOnDataLoss` is false. Spark reads an added topic from its beginning."
            ),
        )
    return (
        Severity.BLOCKS,
        (
            f"Spark will refuse to start: source {index} no longer subscribes to a topic that has"
            " offsets in the checkpoint."
        ),
    )


def _split_topics(target: str) -> set[str]:
    return {topic.strip() for topic in target.split(",")}


def _read_option(source: PlanSource, key: str) -> str:
    return next((value for name, value in source.options.items() if name.lower() == key), "")


def _compare_offsets(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare without a record of the old query: the offsets of Kafka name their topics."""
    for _, source, new in _pair_sources(change):
        if isinstance(source.offset, KafkaOffset):
            topics = {partition.topic for partition in source.offset.partitions}
            wanted = _split_topics(new.target)
            if topics and wanted and not wanted & topics:
                yield difference.make_finding(
                    Code.SOURCE_TARGET_CHANGED,
                    Severity.UNDEFINED,
                    f"Source {source.name} subscribes to topics that have no offsets in the"
                    " checkpoint.",
                    where=f"offsets/{change.evidence.batches.last_planned}",
                    was=", ".join(sorted(topics)),
                    now=new.target,
                    remedies=(UNDO_OR_START_OVER,),
                )
                continue
        yield NotAssessed(
            question=f"whether source {source.name} ({_describe(new)}) is the source that was read"
            " before",
            reason=NOT_RECORDED.reason,
        )


def _compare_named(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare named sources, which keep their offsets by name (Spark 4.2 and later)."""
    # In an offset log of version 1, only the folders of the sources have the names.
    was = {source.name for source in change.evidence.sources} | set(change.evidence.source_logs)
    now = [source.name for source in change.new.sources]
    recorded = change.old.sources if change.old is not None else ()
    old = {source.name: source for source in recorded}
    for index, source in enumerate(change.new.sources):
        name, before = source.name, old.get(source.name, source)
        if name in was and before.target != source.target:
            yield _make_target_finding(change, index, before, source)
        elif name not in was:
            yield difference.make_finding(
                Code.SOURCE_RENAMED,
                Severity.DUPLICATES,
                f"Spark will read source `{name}` from its beginning: the checkpoint has no offsets"
                " under this name.",
                where=f"offsets/{change.evidence.batches.last_planned}",
                was=", ".join(sorted(was)),
                now=", ".join(now),
                remedies=(
                    f"{UNDO}: keep the old name of the source",
                    "accept the change, if the source is new",
                ),
            )


def _read_recorded_kind(change: QueryChange, index: int) -> str:
    recorded = change.old.sources if change.old is not None else ()
    return recorded[index].kind if index < len(recorded) else ""


def _has_other_kind(source: SourceEvidence, new: PlanSource) -> bool:
    kinds = {source.kind, *source.other_kinds}
    return bool(kinds & _SHAPES) and new.kind in _SHAPES and new.kind not in kinds


def _describe_old(change: QueryChange, sources: Sequence[SourceEvidence]) -> list[str]:
    old = change.old
    if old is not None and len(old.sources) == len(sources):
        return [_describe(source) for source in old.sources]
    return [source.kind for source in sources]


def _describe(source: PlanSource) -> str:
    return f"{source.kind} {source.target}".strip()
