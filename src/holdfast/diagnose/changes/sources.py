"""Stage 3: does the query read the same things, in the same order?

An offset entry holds one line a source, by its place in the plan, and neither kind nor name.
Version 2 has the number of the place in the line, or a name; a source without an offset has none.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.evidence import SourceEvidence
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanSource
from holdfast.model.source_offset import KafkaOffset

_SHAPES = frozenset({"files", "Kafka", "Delta", "rate", "rate-micro-batch", "socket"})
_GLOB = frozenset("*?[{")
_NAMES = re.compile(r"[\w.,\- ]+")


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Number, kind, order and targets of the sources."""
    seen, new = change.evidence.sources, change.new.sources
    if any(one.name for one in new):
        yield from _compare_named(change)
        return
    if _has_numbers(change):
        yield from _compare_numbers(change)
    elif len(seen) != len(new):
        yield difference.make_finding(
            Code.SOURCE_COUNT_CHANGED,
            Severity.BLOCKS,
            "The checkpoint holds offsets of another number of sources: Spark refuses to start.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=", ".join(_describe_old(change, seen)),
            now=", ".join(_describe(one) for one in new),
            remedies=(
                f"{TAKE_BACK}, or {NEW_CHECKPOINT}",
                "give the other source a query of its own",
            ),
        )
        return
    changed = [
        (old, one)
        for place, old, one in _pair_sources(change)
        if _has_other_kind(old, one) or _read_recorded_kind(change, place) not in ("", one.kind)
    ]
    for old, one in changed:
        yield difference.make_finding(
            Code.SOURCE_KIND_CHANGED,
            Severity.BLOCKS,
            f"Source {old.name} is of another kind, which cannot read the offsets that are there.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=old.kind,
            now=_describe(one),
            remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
        )
    if not changed:
        yield from _compare_targets(change)
        yield from _list_opaque(change)


def _has_numbers(change: QueryChange) -> bool:
    """Whether the offsets have the numbers of their places, which need not be all there."""
    planned = change.evidence.batches.last_planned
    entry = None if planned is None else change.evidence.offset_entries.get(planned)
    return entry is not None and entry.version > 1


def _pair_sources(change: QueryChange) -> Iterator[tuple[int, SourceEvidence, PlanSource]]:
    """The sources that have an offset, by their places."""
    seen = {one.name: one for one in change.evidence.sources}
    for place, one in enumerate(change.new.sources):
        if str(place) in seen:
            yield place, seen[str(place)], one


def _compare_numbers(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Version 2: Spark passes over offsets without a source, and the other way round."""
    new, old = change.new.sources, change.old
    places = {str(place) for place in range(len(new))}
    beyond = [one for one in change.evidence.sources if one.name not in places]
    was = old.sources if old is not None else ()
    if beyond or (was and len(was) != len(new)):
        yield difference.make_finding(
            Code.SOURCE_COUNT_CHANGED,
            Severity.UNDEFINED,
            "The query reads another number of sources: Spark gives them the offsets of their"
            " places, forgets those that are left over, and reads the rest from their beginnings.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=", ".join(_describe(one) for one in was)
            or ", ".join(f"source {one.name}" for one in change.evidence.sources),
            now=", ".join(_describe(one) for one in new),
            remedies=(TAKE_BACK, "accept it, if the sources before it are the same"),
        )
    elif not was:
        names = {one.name for one in change.evidence.sources}
        for place in range(len(new)):
            if str(place) not in names:
                yield NotAssessed(
                    question=f"whether source {place} ({_describe(new[place])}) is a new one",
                    reason="it has no offset yet, and no run record holds the plan of the query",
                )


def _list_opaque(change: QueryChange) -> Iterator[NotAssessed]:
    for index, one in enumerate(change.new.sources):
        if one.kind not in _SHAPES:
            yield NotAssessed(
                question=f"whether source {index} ({_describe(one)}) still takes its offsets for"
                " what they were",
                reason="only its own code knows what they mean",
            )


def _compare_targets(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    new = change.new.sources
    if change.old is None or len(change.old.sources) != len(new):
        yield from _compare_offsets(change)
        return
    old = change.old.sources
    was, now = [one.target for one in old], [one.target for one in new]
    if was != now and sorted(was) == sorted(now):
        yield difference.make_finding(
            Code.SOURCES_SWAPPED,
            Severity.LOSES,
            "The sources come in another order: each would go on from the offsets of another.",
            where=difference.name_record(change),
            was=", ".join(was),
            now=", ".join(now),
            remedies=(f"{TAKE_BACK}: name the sources in the old order",),
        )
        return
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        if before.target != after.target:
            yield _make_target_finding(change, index, before, after)


def _make_target_finding(
    change: QueryChange, index: int, was: PlanSource, now: PlanSource
) -> Finding:
    severity, text = Severity.UNDEFINED, "what it reads from there is not what came before."
    if now.kind == "files" and not _GLOB & set(now.target):
        severity = Severity.BLOCKS
        text = "files of the old path lie outside of the new one, and Spark refuses to read them."
    elif now.kind == "Delta":
        severity, text = Severity.BLOCKS, "another table has another id, and Delta refuses it."
    elif now.kind == "Kafka":
        severity, text = _explain_topics(was, now)
    return difference.make_finding(
        Code.SOURCE_TARGET_CHANGED,
        severity,
        f"Source {index} reads something else: {text}",
        where=difference.name_record(change),
        was=was.target,
        now=now.target,
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _explain_topics(was: PlanSource, now: PlanSource) -> tuple[Severity, str]:
    """A pattern may match the same topics; of names it is known which have come and gone."""
    named = _NAMES.fullmatch(was.target) and _NAMES.fullmatch(now.target)
    if not named or _split_topics(was.target) <= _split_topics(now.target):
        return Severity.UNDEFINED, "a topic that was added is read from its beginning."
    if _read_option(now, "failondataloss").lower() == "false":
        text = (
            "what was not yet read of a topic that is gone never is, since `failOnDataLoss` is"
            " false, and one that was added is read from its beginning."
        )
        return Severity.LOSES, text
    return Severity.BLOCKS, "Spark refuses offsets of a topic that it no longer reads."


def _split_topics(target: str) -> set[str]:
    return {one.strip() for one in target.split(",")}


def _read_option(source: PlanSource, key: str) -> str:
    return next((value for name, value in source.options.items() if name.lower() == key), "")


def _compare_offsets(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Without a record: Kafka's offsets name their topics, and a file source lists its files."""
    for _, seen, new in _pair_sources(change):
        if isinstance(seen.offset, KafkaOffset):
            topics = {one.topic for one in seen.offset.partitions}
            wanted = _split_topics(new.target)
            if topics and wanted and not wanted & topics:
                yield difference.make_finding(
                    Code.SOURCE_TARGET_CHANGED,
                    Severity.UNDEFINED,
                    f"Source {seen.name} subscribes to other topics than the offsets are of.",
                    where=f"offsets/{change.evidence.batches.last_planned}",
                    was=", ".join(sorted(topics)),
                    now=new.target,
                    remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
                )
                continue
        yield NotAssessed(
            question=f"whether source {seen.name} ({_describe(new)}) is the one that was read",
            reason="no run record holds the plan of the query",
        )


def _compare_named(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Named sources keep their offsets by name (Spark 4.2 and later)."""
    # In an offset log of version 1 only the folders of the sources have their names.
    was = {one.name for one in change.evidence.sources} | set(change.evidence.source_logs)
    now = [one.name for one in change.new.sources]
    old = {one.name: one for one in (change.old.sources if change.old is not None else ())}
    for index, source in enumerate(change.new.sources):
        name, before = source.name, old.get(source.name, source)
        if name in was and before.target != source.target:
            yield _make_target_finding(change, index, before, source)
        elif name not in was:
            yield difference.make_finding(
                Code.SOURCE_RENAMED,
                Severity.DUPLICATES,
                f"Source `{name}` has no offsets: it is read from its beginning.",
                where=f"offsets/{change.evidence.batches.last_planned}",
                was=", ".join(sorted(was)),
                now=", ".join(now),
                remedies=(f"{TAKE_BACK}: a source keeps its name", "accept it for a new source"),
            )


def _read_recorded_kind(change: QueryChange, index: int) -> str:
    known = change.old.sources if change.old is not None else ()
    return known[index].kind if index < len(known) else ""


def _has_other_kind(seen: SourceEvidence, new: PlanSource) -> bool:
    kinds = {seen.kind, *seen.other_kinds}
    return bool(kinds & _SHAPES) and new.kind in _SHAPES and new.kind not in kinds


def _describe_old(change: QueryChange, seen: Sequence[SourceEvidence]) -> list[str]:
    old = change.old
    if old is not None and len(old.sources) == len(seen):
        return [_describe(one) for one in old.sources]
    return [one.kind for one in seen]


def _describe(one: PlanSource) -> str:
    return f"{one.kind} {one.target}".strip()
