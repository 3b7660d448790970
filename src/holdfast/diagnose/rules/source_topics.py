"""Stage 3: does Kafka still have the offsets to read?

first ≤ position ≤ next is as it should be. A position below `first` has expired; one above `next`
belongs to a topic that was deleted and made anew.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.model.batch import Unknown
from holdfast.model.evidence import SourceSeen
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.source_offset import KafkaOffset, TopicPartition
from holdfast.model.surroundings import KafkaSeen

if TYPE_CHECKING:
    from holdfast.model.restart import SourceRange

_MOST_TOLD = 5


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """Each source that is Kafka, where a cluster was named to be asked."""
    sources = [one for one in seen.evidence.sources if isinstance(one.offset, KafkaOffset)]
    cluster = seen.surroundings.kafka
    for source in sources:
        if isinstance(cluster, Unknown):
            yield NotAssessed(
                question=f"whether Kafka has the offsets of source {source.name}",
                reason=cluster.reason,
            )
        else:
            yield from _of_source(seen, source, cluster)


def _of_source(seen: Seen, source: SourceSeen, cluster: KafkaSeen) -> Iterator[Finding]:
    positions = _positions(seen, source)
    gone = [one for one in positions if one not in cluster.first]
    expired = {
        one: position
        for one, position in positions.items()
        if one in cluster.first and position < cluster.first[one]
    }
    beyond = {
        one: position
        for one, position in positions.items()
        if one in cluster.next and position > cluster.next[one]
    }
    if expired:
        yield _finding(
            Code.KAFKA_OFFSETS_EXPIRED,
            Severity.LOSES,
            f"Kafka has deleted records that source {source.name} has yet to read.",
            [_clue(one, f"offset {at}", cluster.first[one]) for one, at in expired.items()],
            "with `failOnDataLoss` the query stops; without it, it goes on without those records",
        )
    if beyond:
        yield _finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"A topic of source {source.name} ends before the offsets that were read: it was"
            " deleted and made anew, or is another cluster's.",
            [_ended(one, f"offset {at}", cluster.next[one]) for one, at in beyond.items()],
            "point the query at the right cluster; or start it with a new checkpoint",
        )
    if gone:
        yield _finding(
            Code.KAFKA_PARTITION_GONE,
            Severity.LOSES,
            f"Partitions of source {source.name} are not in the cluster.",
            [
                Clue(file=f"{one.topic}-{one.partition}", expected="a partition", found="none")
                for one in gone
            ],
            "point the query at the right cluster, or make the topic anew with its partitions",
        )


def _positions(seen: Seen, source: SourceSeen) -> dict[TopicPartition, int]:
    """From where the batch to come reads: the start of its range."""
    ranges = {one.source: one for one in seen.restart.ranges}
    found: SourceRange | None = ranges.get(source.name)
    start = found.start if found is not None else source.raw
    if not isinstance(start, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in start.items()
        if isinstance(partitions, dict)
        for partition, position in partitions.items()
        if isinstance(position, int) and partition.isdecimal()
    }


def _clue(one: TopicPartition, expected: str, first: int) -> Clue:
    return Clue(
        file=f"{one.topic}-{one.partition}", expected=expected, found=f"offsets from {first} on"
    )


def _ended(one: TopicPartition, expected: str, end: int) -> Clue:
    return Clue(
        file=f"{one.topic}-{one.partition}", expected=expected, found=f"offsets up to {end}"
    )


def _finding(code: Code, severity: Severity, text: str, clues: list[Clue], remedy: str) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        text=text,
        clues=tuple(clues[:_MOST_TOLD]),
        remedies=(remedy,),
    )
