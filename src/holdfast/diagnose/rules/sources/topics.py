"""Stage 3: does Kafka still have the offsets to read?

Of a batch that runs again no cluster has to be asked: partitions that it begins in and does not end
in were gone when it was planned, and one that ends before it begins had been made anew.

The ids of cluster and topics come first, where a run record tells those that were read: of another
cluster, or of a topic that was made anew, no offset says anything. Of the rest first ≤ position ≤
next is as it should be. A position below `first` has expired; one above `next` belongs to a topic
that was deleted and made anew.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.diagnose import kafka_identity
from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.fingerprint import NOT_IDENTIFIED, KafkaIdentity
from holdfast.model.source_offset import KafkaOffset, Movement, PartitionChange, TopicPartition
from holdfast.model.surroundings import KafkaCluster
from holdfast.predict import kafka_ranges

if TYPE_CHECKING:
    from holdfast.model.restart import SourceRange

_MOST_TOLD = 5
_SHORT = "it was deleted and made anew, or is another cluster's"


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Each source that is Kafka, where a cluster was named to be asked."""
    sources = [one for one in seen.evidence.sources if isinstance(one.offset, KafkaOffset)]
    cluster = seen.surroundings.kafka
    for source in sources:
        yield from _find_in_range(seen, source)
        if isinstance(cluster, Unknown):
            yield _make_not_assessed(source, cluster.reason)
        else:
            yield from _compare_source(seen, source, cluster)


def _compare_source(
    seen: RuleInput, source: SourceEvidence, cluster: KafkaCluster
) -> Iterator[Finding | NotAssessed]:
    was, now = _read_recorded(seen, source), cluster.identity
    begun = kafka_identity.list_begun_topics(source)
    anew: list[str] = []
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        if begun:
            told = [one.reason for one in (was, now) if isinstance(one, Unknown)]
            yield NotAssessed(
                question=f"whether the topics of source {source.name} are those that it has read",
                reason=told[0],
            )
    elif was.cluster != now.cluster and now.cluster in _list_clusters(seen):
        yield _make_not_assessed(source, f"`{cluster.servers}` is the cluster of another source")
        return
    elif begun and was.cluster != now.cluster:
        yield _make_cluster_finding(
            seen, source, was.cluster, f"{now.cluster} at {cluster.servers}"
        )
        return
    else:
        ids = kafka_identity.find_recreated(was, now)
        anew = [name for name in ids if name in begun]
        if anew:
            yield _make_recreated_finding(source, {name: ids[name] for name in anew})
    yield from _compare_offsets(seen, source, cluster, anew)


def _find_in_range(seen: RuleInput, source: SourceEvidence) -> Iterator[Finding]:
    """What Spark finds wrong with the range of a batch before it reads it."""
    restart = seen.restart
    own = next((one for one in restart.ranges if one.source == source.name), None)
    if not restart.rerun or own is None or isinstance(own.consumed, Unknown):
        return
    entry, batch = f"offsets/{restart.batch}", restart.batch
    known = kafka_ranges.fails_on_loss(seen.evidence, source.name)
    stops = (
        f"A start goes on at batch {batch} without an error, because `failOnDataLoss` is `false`"
        if known is False
        else f"Every start stops at batch {batch}"
    )
    gone = kafka_ranges.list_changed(own, Movement.VANISHED)
    if gone:
        where = kafka_ranges.name_partitions(gone)
        new = [one.partition for one in kafka_ranges.list_changed(own, Movement.APPEARED)]
        other = f" or the query read topic {kafka_ranges.name_topics(new)} instead" if new else ""
        yield _make_finding(
            Code.KAFKA_PARTITION_GONE,
            Severity.LOSES,
            f"{stops}: it begins in {where}, source {source.name}, and has no end there. When the"
            f" batch was planned, these were gone{other}.",
            [Clue(file=entry, expected=f"an offset of {o.partition}", found="none") for o in gone],
            *_list_cures(seen, source, gone, "if topic {} is still to be read"),
        )
    back = kafka_ranges.list_changed(own, Movement.WENT_BACK)
    if back:
        where = kafka_ranges.name_partitions(back)
        yield _make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"{stops}: it ends before it begins in {where}, source {source.name}. The topic was"
            " deleted and created again before the batch was planned, or an offset was edited.",
            [
                Clue(file=entry, expected=f"{o.start} or later in {o.partition}", found=o.end)
                for o in back
            ],
            *_list_cures(seen, source, back, "if topic {} is the old one, and the offset wrong"),
        )


def _list_cures(
    seen: RuleInput, source: SourceEvidence, lost: Sequence[PartitionChange], condition: str
) -> Iterator[str]:
    """Return what can be done about a range that Spark refuses."""
    batches = seen.evidence.batches
    planned = batches.last_planned
    topics = kafka_ranges.name_topics([one.partition for one in lost])
    if planned and batches.last_committed == planned - 1:
        yield (
            f"{condition.format(topics)}, and the sink has no rows of batch {planned}:"
            f" move `offsets/{planned}` and `offsets/.{planned}.crc` away, and start the query with"
            f" topic {topics}; it continues where batch {planned - 1} ended"
        )
    yield (
        'if not, start the query with `.option("failOnDataLoss", "false")` on the Kafka source:'
        f" batch {planned} then runs without {kafka_ranges.name_partitions(lost)}, and what source"
        f" {source.name} had not read there is lost"
    )


def _read_recorded(seen: RuleInput, source: SourceEvidence) -> KafkaIdentity | Unknown:
    """What the query read from when it last ran."""
    plan = seen.evidence.plan
    if isinstance(plan, Unknown):
        return plan
    known = plan.value.by_name.get(source.name)
    return NOT_IDENTIFIED if known is None else known.identity


def _explain_short_topic(seen: RuleInput, source: SourceEvidence) -> str:
    """How a topic that has no other id, or none that is known, can be too short."""
    cluster = seen.surroundings.kafka
    if isinstance(cluster, Unknown) or isinstance(cluster.identity, Unknown):
        return _SHORT
    same = isinstance(_read_recorded(seen, source), KafkaIdentity)
    return "it is the same topic by its id, and has lost its last records" if same else _SHORT


def _list_clusters(seen: RuleInput) -> set[str]:
    """Every cluster that the query read from."""
    told = [_read_recorded(seen, one) for one in seen.evidence.sources]
    return {one.cluster for one in told if isinstance(one, KafkaIdentity)}


def _make_not_assessed(source: SourceEvidence, reason: str) -> NotAssessed:
    question = f"whether Kafka has the offsets of source {source.name}"
    return NotAssessed(question=question, reason=reason)


def _make_cluster_finding(seen: RuleInput, source: SourceEvidence, was: str, now: str) -> Finding:
    plan = seen.evidence.plan
    return Finding(
        code=Code.KAFKA_CLUSTER_CHANGED,
        severity=Severity.LOSES,
        text=f"This is another Kafka cluster than source {source.name} has read from: its offsets"
        " count other records here, and Spark does not notice.",
        clues=(
            Clue(
                file=plan.read_from[0] if isinstance(plan, Known) else "",
                expected=f"cluster {was}",
                found=f"cluster {now}",
            ),
        ),
        remedies=kafka_identity.CLUSTER_REMEDIES,
    )


def _make_recreated_finding(source: SourceEvidence, ids: Mapping[str, tuple[str, str]]) -> Finding:
    clues = [
        Clue(file=name, expected=f"topic id {was}", found=f"topic id {now}")
        for name, (was, now) in ids.items()
    ]
    return Finding(
        code=Code.KAFKA_TOPIC_RECREATED,
        severity=Severity.LOSES,
        text=f"A topic of source {source.name} was deleted and made anew: Spark goes on at the old"
        " offset, and never reads what the new one holds before it.",
        clues=tuple(clues[:_MOST_TOLD]),
        remedies=kafka_identity.TOPIC_REMEDIES,
    )


def _compare_offsets(
    seen: RuleInput, source: SourceEvidence, cluster: KafkaCluster, anew: Collection[str]
) -> Iterator[Finding]:
    """Whether the cluster has what is to be read, of topics that are still the same."""
    positions = {
        one: at for one, at in _read_positions(seen, source).items() if one.topic not in anew
    }
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
        yield _make_finding(
            Code.KAFKA_OFFSETS_EXPIRED,
            Severity.LOSES,
            f"Kafka has deleted records that source {source.name} has yet to read.",
            [
                _make_start_clue(one, f"offset {at}", cluster.first[one])
                for one, at in expired.items()
            ],
            "with `failOnDataLoss` the query stops; without it, it goes on without those records",
        )
    if beyond:
        yield _make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"A topic of source {source.name} ends before the offsets that were read:"
            f" {_explain_short_topic(seen, source)}.",
            [_make_end_clue(one, f"offset {at}", cluster.next[one]) for one, at in beyond.items()],
            "point the query at the right cluster; or, if the topic was deleted and created again,"
            f" {advice.NEW_NAME}",
        )
    if gone:
        yield _make_finding(
            Code.KAFKA_PARTITION_GONE,
            Severity.LOSES,
            f"Partitions of source {source.name} are not in the cluster.",
            [
                Clue(file=f"{one.topic}-{one.partition}", expected="a partition", found="none")
                for one in gone
            ],
            "point the query at the right cluster, or make the topic anew with its partitions",
        )


def _read_positions(seen: RuleInput, source: SourceEvidence) -> dict[TopicPartition, int]:
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


def _make_start_clue(one: TopicPartition, expected: str, first: int) -> Clue:
    return Clue(
        file=f"{one.topic}-{one.partition}", expected=expected, found=f"offsets from {first} on"
    )


def _make_end_clue(one: TopicPartition, expected: str, end: int) -> Clue:
    return Clue(
        file=f"{one.topic}-{one.partition}", expected=expected, found=f"offsets up to {end}"
    )


def _make_finding(
    code: Code, severity: Severity, text: str, clues: list[Clue], *remedies: str
) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        text=text,
        clues=tuple(clues[:_MOST_TOLD]),
        remedies=remedies,
    )
