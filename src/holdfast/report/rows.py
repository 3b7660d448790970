"""Evidence -> rows that more than one kind of report shows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence, RestartSign, SourceEvidence, Start, TimelineBatch
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
    """One of the nine facts: `note` says where it was read, or why it is not known."""

    name: str
    status: str
    value: str
    note: str
    inferred: str


def list_facts(evidence: Evidence) -> Iterator[FactRow]:
    """The nine facts, in their order."""
    offsets = ", ".join(f"{one.name}: {format_kind(one)}" for one in evidence.sources)
    operators, history = evidence.stateful_operators, evidence.restart_history
    named = ", ".join(operators.value) if isinstance(operators, Known) else ""
    provider = evidence.state_store_provider
    named_provider = _get_known(provider).removeprefix(_OWN_PROVIDERS)
    starts = _format_starts(history.value) if isinstance(history, Known) else ""
    yield _make_row("checkpoint location", evidence.location, evidence.location.value)
    yield _make_row("query id", evidence.query_id, _get_known(evidence.query_id))
    yield _make_row("source offsets", evidence.source_offsets, offsets)
    yield _make_row("sink", evidence.sink, _get_known(evidence.sink))
    yield _make_row("output mode", evidence.output_mode, _get_known(evidence.output_mode))
    yield _make_row("stateful operators", operators, named)
    yield _make_row("state store provider", provider, named_provider)
    yield _make_row("Spark version", evidence.spark_version, _get_known(evidence.spark_version))
    yield _make_row("restart history", history, starts)


def count_unnamed_foreign(evidence: Evidence) -> int:
    """How many files that are not of the checkpoint are counted, and not named."""
    amount = evidence.files.get(FileKind.FOREIGN)
    return 0 if amount is None else max(0, amount.count - len(evidence.foreign))


def format_kind(shown: SourceEvidence | SourceRange) -> str:
    """What a source is, or may be."""
    if not shown.kind:
        return "no offset"
    return (
        " or ".join((shown.kind, ", ".join(shown.other_kinds))) if shown.other_kinds else shown.kind
    )


def measure_ms(shown: TimelineBatch) -> int | None:
    """The time from the plan of a batch to its commit, where both are told."""
    if isinstance(shown.planned_ms, Unknown) or isinstance(shown.committed_ms, Unknown):
        return None
    took = shown.committed_ms - shown.planned_ms
    return took if took >= 0 else None


def count_consumed(shown: TimelineBatch) -> tuple[int | Unknown, str]:
    """The rows of a batch as Spark counted them, or else what its offsets number, and the unit."""
    return (shown.records, shown.unit) if isinstance(shown.rows, Unknown) else (shown.rows, "rows")


def format_amount(count: int | Unknown, unit: str) -> str:
    """How many of a unit, or a dash."""
    if isinstance(count, Unknown) or not unit:
        return "-"
    return words.pluralize(count, unit.removesuffix("s"))


def format_duration(shown: TimelineBatch) -> str:
    """The time from the plan of a batch to its commit, or a dash."""
    ms = measure_ms(shown)
    return "-" if ms is None else words.format_duration(ms)


def format_batches(shown: SourceEvidence) -> str:
    """Which batches a source's range belongs to."""
    if shown.after is None:
        return "batch 0" if shown.batch == 0 else f"up to batch {shown.batch}"
    if shown.after + 1 == shown.batch:
        return f"batch {shown.batch}"
    if shown.after >= shown.batch:
        return f"back to the end of batch {shown.batch}"
    return f"batches {shown.after + 1} to {shown.batch}"


def format_consumed(shown: SourceEvidence) -> str:
    """Which batches a source's range belongs to, and how much lies in it."""
    total = format_amount(shown.consumed.total, shown.consumed.unit)
    return format_batches(shown) if total == "-" else f"{format_batches(shown)}: {total}"


def pick_partitions(shown: Sequence[PartitionChange], most: int) -> list[PartitionChange]:
    """So many partitions in the order of their numbers; first those that lost ground, if cut."""
    ordered = sorted(shown, key=_make_sort_key)
    if len(ordered) > most:
        ordered.sort(key=lambda one: one.change not in LOST_GROUND)
    return ordered[:most]


def _make_sort_key(shown: PartitionChange) -> list[tuple[int, str]]:
    """`orders-2` comes before `orders-10`."""
    # Python reads no number of thousands of digits: by its length and then by its letters.
    parts = _DIGITS.split(shown.partition)
    return [(len(one.lstrip("0")) if at % 2 else 0, one) for at, one in enumerate(parts)]


def list_range(shown: SourceRange) -> tuple[PartitionChange, ...]:
    """Return the partitions of a range; of one that is not planned yet, only where each begins."""
    if isinstance(shown.consumed, ConsumedRange):
        return shown.consumed.partitions
    reason = shown.consumed
    return tuple(
        PartitionChange(
            partition=partition, start=text, end="", count=reason, change=Movement.END_UNKNOWN
        )
        for partition, text in shown.positions
    )


def format_same_source(shown: SourceEvidence) -> str:
    """That an offset is of the same source as an earlier one, and by what that was inferred."""
    if shown.same_as is None:
        return ""
    return f"the same source as {shown.same_as.name}: {shown.same_as.inferred}"


def format_files_left_out(shown: SourceEvidence, listed: int) -> str:
    """Which files of a source are not among the so many that are listed; empty where all are."""
    more = len(shown.files) - min(listed, len(shown.files)) + shown.files_more
    unread = words.pluralize(shown.log_offsets_unread, "log offset")
    if not shown.log_offsets_unread:
        return words.pluralize(more, "more file") if more else ""
    if not more:
        return f"not read: the files of {unread}"
    return f"{words.pluralize(more, 'more file')}; not read: those of {unread}"


def _get_known(shown: Fact[str]) -> str:
    return shown.value if isinstance(shown, Known) else ""


def _make_row(name: str, shown: Fact[T], text: str) -> FactRow:
    match shown:
        case Known(read_from=read_from, inferred=inferred):
            where = "" if name == "checkpoint location" else _format_files(read_from)
            return FactRow(name=name, status="known", value=text, note=where, inferred=inferred)
        case Absent(reason=reason):
            return FactRow(name=name, status="absent", value="", note=reason, inferred="")
        case UnreadableFile(path=path, reason=reason):
            note = f"{path}: {reason}"
            return FactRow(name=name, status="unreadable", value="", note=note, inferred="")
        case Unknown(reason=reason):
            return FactRow(name=name, status="unknown", value="", note=reason, inferred="")
        case _:
            assert_never(shown)


def _format_files(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - 2} more" if len(shown) > 2 else ""  # noqa: PLR2004
    return ", ".join(shown[:2]) + more


def _format_starts(starts: Sequence[Start]) -> str:
    recorded = [s for s in starts if s.sign in (RestartSign.RECORDED, RestartSign.EVENT_LOG)]
    parts = [words.pluralize(len(recorded), "start")] if recorded else []
    signs = len(starts) - len(recorded)
    if signs or not recorded:
        parts.append(words.pluralize(signs, "sign of a restart", "signs of a restart"))
    return ", ".join(parts)


def list_schema(shown: OperatorEvidence) -> Iterator[tuple[str, str, str, str]]:
    """What the stores of an operator hold: store, column family, key and value."""
    for store, families in shown.schema.items():
        for family in families:
            key = ", ".join(f"{c.name} {c.type}" for c in family.key)
            value = ", ".join(f"{c.name} {c.type}" for c in family.value)
            yield store, family.name, key, value


def _format_partitions(shown: OperatorEvidence) -> str:
    seen = words.pluralize(shown.partitions, "partition")
    bare = shown.partitions - len({one.partition for one in shown.stores if one.latest_version})
    if bare:
        seen += f" ({bare:,} without state files)"
    elif shown.absent:
        seen += f" ({words.pluralize(len(shown.absent), 'store')} without state files)"
    if shown.left_over:
        seen += f" (and {shown.left_over:,} left over from before a repartition)"
    if not shown.unlisted:
        return seen
    more = len(shown.unlisted) - 1
    others = f" and {words.pluralize(more, 'other folder')}" if more else ""
    return f"{seen} seen, and `{shown.unlisted[0].path}`{others}, which cannot be listed"


def _format_restorable(shown: OperatorEvidence) -> str:
    match shown.restorable:
        case Unknown():
            return "no batch known to be restorable"
        case ():
            return "no batch can be restored"
        case (Span(first=first, last=last),):
            span = f"es {first:,} to {last:,}" if first != last else f" {first:,}"
            return f"restorable batch{span}"
        case several:
            return f"restorable batches {words.format_spans(several)}"


def format_stores_behind(shown: OperatorEvidence) -> str:
    """How many stores of an operator have reached its latest version; empty if all have."""
    others = [one for one in shown.stores if one.latest_version != shown.latest_version]
    if not others or shown.latest_version is None:
        return ""
    told = ", ".join(f"{s.partition}/{s.store} at {s.latest_version}" for s in others[:4])
    more = f" and {len(others) - 4:,} more" if len(others) > 4 else ""  # noqa: PLR2004
    stores = words.pluralize(len(shown.stores), "store")
    return (
        f"{len(shown.stores) - len(others):,} of {stores} ended batch {shown.latest_version - 1}"
        f" (version {shown.latest_version}), the others did not: {told}{more}"
    )


def format_driver(evidence: Evidence) -> str:
    """Who runs the query now, by its lease; empty where nobody is known to."""
    lease = evidence.lease
    if lease is None or not evidence.driver_runs:
        return ""
    return f"A driver runs: process {lease.holder.pid} on {lease.holder.host}"


def format_state(shown: OperatorEvidence) -> str:
    """The state of an operator in one line."""
    if not shown.partitions and not shown.unlisted:
        return "its state is gone, no batch can be restored"
    counted = "rows unknown"
    if not isinstance(shown.rows, Unknown):
        counted = words.pluralize(shown.rows, "row")
    return ", ".join(
        (
            _format_partitions(shown),
            words.format_size(shown.bytes),
            counted,
            f"latest version {words.format_number(shown.latest_version)}",
            _format_restorable(shown),
        )
    )
