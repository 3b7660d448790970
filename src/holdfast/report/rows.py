"""Evidence -> rows and phrases that text, Markdown and HTML share."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import (
    Evidence,
    LedgerEvidence,
    RestartSign,
    SourceEvidence,
    Start,
    TimelineBatch,
)
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.ids import Span
from holdfast.model.restart import SourceRange
from holdfast.model.source_offset import ConsumedRange, Movement, PartitionChange
from holdfast.model.state import OperatorEvidence
from holdfast.report import words

T = TypeVar("T")
LOST_GROUND = frozenset({Movement.WENT_BACK, Movement.VANISHED})
_DIGITS = re.compile(r"(\d+)")
_OWN_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow:
    """One of the nine facts; `note` names the files that say so, or why it is not known."""

    name: str
    status: str
    value: str
    note: str
    inferred: str


def list_facts(evidence: Evidence) -> Iterator[FactRow]:
    """Yield the nine facts, always in the same order."""
    offsets = ", ".join(f"{source.name}: {format_kind(source)}" for source in evidence.sources)
    operators, history = evidence.stateful_operators, evidence.restart_history
    names = ", ".join(operators.value) if isinstance(operators, Known) else ""
    provider = evidence.state_store_provider
    provider_name = _get_known(provider).removeprefix(_OWN_PROVIDERS)
    starts = _format_starts(history.value) if isinstance(history, Known) else ""
    yield _make_row("checkpoint location", evidence.location, evidence.location.value)
    yield _make_row("query id", evidence.query_id, _get_known(evidence.query_id))
    yield _make_row("source offsets", evidence.source_offsets, offsets)
    yield _make_row("sink", evidence.sink, _get_known(evidence.sink))
    yield _make_row("output mode", evidence.output_mode, _get_known(evidence.output_mode))
    yield _make_row("stateful operators", operators, names)
    yield _make_row("state store provider", provider, provider_name)
    yield _make_row("Spark version", evidence.spark_version, _get_known(evidence.spark_version))
    yield _make_row("restart history", history, starts)


def count_unnamed_foreign(evidence: Evidence) -> int:
    """Return how many files outside the checkpoint were counted but not named."""
    amount = evidence.files.get(FileKind.FOREIGN)
    return 0 if amount is None else max(0, amount.count - len(evidence.foreign))


def format_kind(source: SourceEvidence | SourceRange) -> str:
    """Return the kind of a source, or the kinds that it may be."""
    if not source.kind:
        return "no offset"
    if not source.other_kinds:
        return source.kind
    return " or ".join((source.kind, ", ".join(source.other_kinds)))


def measure_ms(batch: TimelineBatch) -> int | None:
    """Return the time from the plan of a batch to its commit, if both are known."""
    if isinstance(batch.planned_ms, Unknown) or isinstance(batch.committed_ms, Unknown):
        return None
    ms = batch.committed_ms - batch.planned_ms
    return ms if ms >= 0 else None


def count_consumed(batch: TimelineBatch) -> tuple[int | Unknown, str]:
    """Return the rows that Spark counted, or else what the offsets count, and the unit."""
    return (batch.records, batch.unit) if isinstance(batch.rows, Unknown) else (batch.rows, "rows")


def format_amount(count: int | Unknown, unit: str) -> str:
    """Return a count with its unit, or a dash."""
    if isinstance(count, Unknown) or not unit:
        return "-"
    return words.pluralize(count, unit.removesuffix("s"))


def format_duration(batch: TimelineBatch) -> str:
    """Return the time from the plan of a batch to its commit, or a dash."""
    ms = measure_ms(batch)
    return "-" if ms is None else words.format_duration(ms)


def format_batches(source: SourceEvidence) -> str:
    """Return the batches that the range of a source belongs to."""
    if source.after is None:
        return "batch 0" if source.batch == 0 else f"up to batch {source.batch}"
    if source.after + 1 == source.batch:
        return f"batch {source.batch}"
    if source.after >= source.batch:
        return f"back to the end of batch {source.batch}"
    return f"batches {source.after + 1} to {source.batch}"


def format_consumed(source: SourceEvidence) -> str:
    """Return the batches that the range of a source belongs to, and how much is in the range."""
    total = format_amount(source.consumed.total, source.consumed.unit)
    return format_batches(source) if total == "-" else f"{format_batches(source)}: {total}"


def pick_partitions(changes: Sequence[PartitionChange], most: int) -> list[PartitionChange]:
    """Return the first partitions by number; if some are cut, those that lost ground come first."""
    ordered = sorted(changes, key=_make_sort_key)
    if len(ordered) > most:
        ordered.sort(key=lambda change: change.change not in LOST_GROUND)
    return ordered[:most]


def _make_sort_key(change: PartitionChange) -> list[tuple[int, str]]:
    """Return a key that sorts `orders-2` before `orders-10`."""
    # By length, then by digits: Python refuses to parse a number of thousands of digits.
    parts = _DIGITS.split(change.partition)
    return [(len(part.lstrip("0")) if at % 2 else 0, part) for at, part in enumerate(parts)]


def list_range(source_range: SourceRange) -> tuple[PartitionChange, ...]:
    """Return the partitions of a range; only their starts if the range is not planned yet."""
    if isinstance(source_range.consumed, ConsumedRange):
        return source_range.consumed.partitions
    unplanned = source_range.consumed
    return tuple(
        PartitionChange(
            partition=partition, start=text, end="", count=unplanned, change=Movement.END_UNKNOWN
        )
        for partition, text in source_range.positions
    )


def format_same_source(source: SourceEvidence) -> str:
    """Return which earlier offset belongs to the same source, and what that is inferred from."""
    if source.same_as is None:
        return ""
    return f"the same source as {source.same_as.name}: {source.same_as.inferred}"


def format_files_left_out(source: SourceEvidence, listed: int) -> str:
    """Return which files of a source are not among the first `listed`; empty if all are."""
    more = len(source.files) - min(listed, len(source.files)) + source.files_more
    unread = (
        f"the files of {words.pluralize(source.log_offsets_unread, 'log offset')} were not read"
    )
    if not source.log_offsets_unread:
        return words.pluralize(more, "more file") if more else ""
    return f"{words.pluralize(more, 'more file')}; {unread}" if more else unread


def _get_known(fact: Fact[str]) -> str:
    return fact.value if isinstance(fact, Known) else ""


def _make_row(name: str, fact: Fact[T], text: str) -> FactRow:
    match fact:
        case Known(read_from=read_from, inferred=inferred):
            files = "" if name == "checkpoint location" else _format_files(read_from)
            return FactRow(name=name, status="known", value=text, note=files, inferred=inferred)
        case Absent(reason=reason):
            return FactRow(name=name, status="absent", value="", note=reason, inferred="")
        case UnreadableFile(path=path, reason=reason):
            note = f"{path}: {reason}"
            return FactRow(name=name, status="unreadable", value="", note=note, inferred="")
        case Unknown(reason=reason):
            return FactRow(name=name, status="unknown", value="", note=reason, inferred="")
        case _:
            assert_never(fact)


def _format_files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""  # noqa: PLR2004
    return ", ".join(paths[:2]) + more


def _format_starts(starts: Sequence[Start]) -> str:
    recorded = [s for s in starts if s.sign in (RestartSign.RECORDED, RestartSign.EVENT_LOG)]
    parts = [words.pluralize(len(recorded), "start")] if recorded else []
    signs = len(starts) - len(recorded)
    if signs or not recorded:
        parts.append(words.pluralize(signs, "sign of a restart", "signs of a restart"))
    return ", ".join(parts)


def list_schema(operator: OperatorEvidence) -> Iterator[tuple[str, str, str, str]]:
    """Yield the schema of each store of an operator: store, column family, key and value."""
    for store, families in operator.schema.items():
        for family in families:
            key = ", ".join(f"{c.name} {c.type}" for c in family.key)
            value = ", ".join(f"{c.name} {c.type}" for c in family.value)
            yield store, family.name, key, value


def _format_partitions(operator: OperatorEvidence) -> str:
    text = words.pluralize(operator.partitions, "partition")
    with_files = {store.partition for store in operator.stores if store.latest_version}
    bare = operator.partitions - len(with_files)
    if bare:
        text += f" ({bare:,} without state files)"
    elif operator.absent:
        text += f" ({words.pluralize(len(operator.absent), 'store')} without state files)"
    if operator.left_over:
        text += f" (and {operator.left_over:,} left over from before a repartition)"
    if not operator.unlisted:
        return text
    more = len(operator.unlisted) - 1
    others = f" and {words.pluralize(more, 'other folder')}" if more else ""
    return f"{text} (`{operator.unlisted[0].path}`{others} cannot be listed)"


def _format_restorable(operator: OperatorEvidence) -> str:
    match operator.restorable:
        case Unknown():
            return "restorable batches unknown"
        case ():
            return "no batch can be restored"
        case (Span(first=first, last=last),):
            span = f"es {first:,} to {last:,}" if first != last else f" {first:,}"
            return f"restorable batch{span}"
        case several:
            return f"restorable batches {words.format_spans(several)}"


def format_stores_behind(operator: OperatorEvidence) -> str:
    """Return which stores of an operator are not at its latest version; empty if all are."""
    others = [s for s in operator.stores if s.latest_version != operator.latest_version]
    if not others or operator.latest_version is None:
        return ""
    named = ", ".join(f"{s.partition}/{s.store} at {s.latest_version}" for s in others[:4])
    more = f" and {len(others) - 4:,} more" if len(others) > 4 else ""  # noqa: PLR2004
    stores = words.pluralize(len(operator.stores), "store")
    batch = f"batch {operator.latest_version - 1} (version {operator.latest_version})"
    finished = f"{len(operator.stores) - len(others):,} of {stores} finished {batch}"
    return f"{finished}, the others did not: {named}{more}"


def format_driver(evidence: Evidence) -> str:
    """Return which process runs the query now, by its lease; empty if none is known to."""
    lease = evidence.lease
    if lease is None or not evidence.driver_runs:
        return ""
    return f"A driver is running: process {lease.holder.pid} on {lease.holder.host}"


def format_state(operator: OperatorEvidence) -> str:
    """Return the state of an operator in one line."""
    if not operator.partitions and not operator.unlisted:
        return "state is missing, no batch can be restored"
    counted = "row count unknown"
    if not isinstance(operator.rows, Unknown):
        counted = words.pluralize(operator.rows, "row")
    return ", ".join(
        (
            _format_partitions(operator),
            words.format_size(operator.bytes),
            counted,
            f"latest version {words.format_number(operator.latest_version)}",
            _format_restorable(operator),
        )
    )


def format_ledger(ledger: LedgerEvidence) -> str:
    """Return the last batch in the ledger of a sink, or why it is not known."""
    batch = ledger.batch
    text = batch.reason if isinstance(batch, Absent | Unknown) else f"last batch {batch}"
    return f"{text} {ledger.note}"
