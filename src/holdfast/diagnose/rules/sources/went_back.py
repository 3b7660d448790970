"""Did a partition go back between two committed batches?

Spark continues from the lower offset without an error. Ranges that are still to run are checked by
the rules of their sources.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import KafkaOffset, TopicPartition

_MOST_LISTED = 5


class _BackwardStep(NamedTuple):
    """A partition whose offset is lower after a batch than before it."""

    batch: int
    partition: TopicPartition
    before: int
    after: int


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if Kafka offsets are lower than one batch before."""
    if given.restart.starting.continuous:
        return
    steps = [*_find_steps(given.evidence)]
    if steps:
        yield _make_finding(steps, given.evidence)


def _find_steps(evidence: Evidence) -> Iterator[_BackwardStep]:
    committed = evidence.batches.last_committed
    for batch, entry in sorted(evidence.offset_entries.items(), reverse=True):
        earlier = evidence.offset_entries.get(BatchId(batch - 1))
        if earlier is None or committed is None or batch > committed:
            continue
        before, after = _read_partitions(earlier), _read_partitions(entry)
        for key, start in sorted(before.items()):
            if key in after and 0 <= after[key] < start:
                yield _BackwardStep(batch, key[1], start, after[key])


def _read_partitions(entry: OffsetEntry) -> dict[tuple[str, TopicPartition], int]:
    return {
        (source.source, partition): offset
        for source in entry.sources
        if isinstance(decoded := source_offset.decode(source.offset), KafkaOffset)
        for partition, offset in decoded.partitions.items()
    }


def _make_finding(steps: list[_BackwardStep], evidence: Evidence) -> Finding:
    first = steps[0]
    is_last = first.batch == evidence.batches.last_planned
    records = (
        f"the records from {first.after} to {first.before} of {_name_partition(first.partition)}"
    )
    effect = (
        f"A restart will read {records} a second time"
        if is_last
        else f"Spark has read {records} twice"
    )
    return Finding(
        code=Code.SOURCE_WENT_BACK,
        severity=Severity.UNDEFINED if is_last else Severity.NOTE,
        text=f"{effect}, or different records with the same offsets: the offset went back in batch"
        f" {first.batch}. The topic was deleted and created again, or somebody edited the entry.",
        clues=tuple(
            Clue(
                file=f"offsets/{step.batch}",
                expected=f"{step.before} or later in {_name_partition(step.partition)}",
                found=str(step.after),
            )
            for step in steps[:_MOST_LISTED]
        ),
        remedies=(
            "if the topic was created again, start the query: the records are new",
            (
                f"if not, restore `offsets/{first.batch}` from a copy of the checkpoint, or expect"
                " these records twice in a sink that cannot tell them apart"
            ),
        )
        if is_last
        else (),
    )


def _name_partition(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
