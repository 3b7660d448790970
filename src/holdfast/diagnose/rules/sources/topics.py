"""Does Kafka still have the offsets to read?

For a batch that runs again the range itself is enough, without a cluster: partitions with a start
but no end were gone when the batch was planned, and a partition that ends before it begins had been
created again.

If a run record has the ids of the cluster and the topics, they are compared first: in a different
cluster, or in a topic that was created again, no offset means anything. Otherwise
first ≤ position ≤ next must hold. A position below `first` has expired. A position above `next`
belongs to a topic that was deleted and created again.
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

_MOST_LISTED = 5
_SHORT = "The topic was deleted and created again, or belongs to a different cluster"


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield what is wrong with each Kafka source, by its range and by the cluster."""
    cluster = given.surroundings.kafka
    for source in given.evidence.sources:
        if not isinstance(source.offset, KafkaOffset):
            continue
        yield from _find_in_range(given, source)
        if isinstance(cluster, Unknown):
            yield _make_not_assessed(source, cluster.reason)
        else:
            yield from _compare_source(given, source, cluster)


def _compare_source(
    given: RuleInput, source: SourceEvidence, cluster: KafkaCluster
) -> Iterator[Finding | NotAssessed]:
    was, now = _read_recorded(given, source), cluster.identity
    begun = kafka_identity.list_begun_topics(source)
    recreated: list[str] = []
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        if begun:
            reasons = [identity.reason for identity in (was, now) if isinstance(identity, Unknown)]
            yield NotAssessed(
                question=f"whether the topics of source {source.name} are those that it has read",
                reason=reasons[0],
            )
    elif was.cluster != now.cluster and now.cluster in _list_clusters(given):
        yield _make_not_assessed(source, f"`{cluster.servers}` is the cluster of another source")
        return
    elif begun and was.cluster != now.cluster:
        yield _make_cluster_finding(
            given, source, was.cluster, f"{now.cluster} at {cluster.servers}"
        )
        return
    else:
        ids = kafka_identity.find_recreated(was, now)
        recreated = [name for name in ids if name in begun]
        if recreated:
            yield _make_recreated_finding(source, {name: ids[name] for name in recreated})
    yield from _compare_offsets(given, source, cluster, recreated)


def _find_in_range(given: RuleInput, source: SourceEvidence) -> Iterator[Finding]:
    """Yield what Spark rejects in the range of a batch before it reads the batch."""
    restart = given.restart
    own = next((item for item in restart.ranges if item.source == source.name), None)
    if not restart.rerun or own is None or isinstance(own.consumed, Unknown):
        return
    entry, batch = f"offsets/{restart.batch}", restart.batch
    effect = (
        f"A restart will continue at batch {batch} without an error, because `failOnDataLoss` is"
        " `false`"
        if kafka_ranges.fails_on_loss(given.evidence, source.name) is False
        else f"Every restart will fail at batch {batch}"
    )
    gone = kafka_ranges.list_changed(own, Movement.VANISHED)
    if gone:
        where = kafka_ranges.name_partitions(gone)
        new = [item.partition for item in kafka_ranges.list_changed(own, Movement.APPEARED)]
        other = f", or the query read topic {kafka_ranges.name_topics(new)} instead" if new else ""
        yield _make_finding(
            Code.KAFKA_PARTITION_GONE,
            Severity.LOSES,
            f"{effect}: the batch begins in {where}, source {source.name}, and has no end there."
            f" When the batch was planned, these partitions were gone{other}.",
            [
                Clue(file=entry, expected=f"an offset of {item.partition}", found="none")
                for item in gone
            ],
            *_list_remedies(given, source, gone, "if topic {} is still to be read"),
        )
    back = kafka_ranges.list_changed(own, Movement.WENT_BACK)
    if back:
        where = kafka_ranges.name_partitions(back)
        condition = "if topic {} was not created again and the offset is wrong"
        yield _make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"{effect}: the batch ends before it begins in {where}, source {source.name}. The topic"
            " was deleted and created again before the batch was planned, or an offset was edited.",
            [
                Clue(
                    file=entry,
                    expected=f"{item.start} or later in {item.partition}",
                    found=item.end,
                )
                for item in back
            ],
            *_list_remedies(given, source, back, condition),
        )


def _list_remedies(
    given: RuleInput, source: SourceEvidence, lost: Sequence[PartitionChange], condition: str
) -> Iterator[str]:
    """Yield what can be done about a range that Spark rejects."""
    batches = given.evidence.batches
    planned = batches.last_planned
    topics = kafka_ranges.name_topics([change.partition for change in lost])
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


def _read_recorded(given: RuleInput, source: SourceEvidence) -> KafkaIdentity | Unknown:
    """Return the cluster and topics that the source read in the last run."""
    plan = given.evidence.plan
    if isinstance(plan, Unknown):
        return plan
    recorded = plan.value.by_name.get(source.name)
    return NOT_IDENTIFIED if recorded is None else recorded.identity


def _explain_short_topic(given: RuleInput, source: SourceEvidence) -> str:
    """Return why a topic can be too short although no changed id was found."""
    cluster = given.surroundings.kafka
    if isinstance(cluster, Unknown) or isinstance(cluster.identity, Unknown):
        return _SHORT
    is_same = isinstance(_read_recorded(given, source), KafkaIdentity)
    return "It is the same topic by its id, and has lost its last records" if is_same else _SHORT


def _list_clusters(given: RuleInput) -> set[str]:
    """Return every cluster that the query read from."""
    identities = [_read_recorded(given, source) for source in given.evidence.sources]
    return {known.cluster for known in identities if isinstance(known, KafkaIdentity)}


def _make_not_assessed(source: SourceEvidence, reason: str) -> NotAssessed:
    question = f"whether Kafka has the offsets of source {source.name}"
    return NotAssessed(question=question, reason=reason)


def _make_cluster_finding(given: RuleInput, source: SourceEvidence, was: str, now: str) -> Finding:
    plan = given.evidence.plan
    return Finding(
        code=Code.KAFKA_CLUSTER_CHANGED,
        severity=Severity.LOSES,
        text="A restart will read the wrong records, and Spark will not notice: this is not the"
        f" Kafka cluster that source {source.name} has read from, and the offsets count different"
        " records here.",
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
        text="A restart will continue at the old offset and never read the new records before it: a"
        f" topic of source {source.name} was deleted and created again.",
        clues=tuple(clues[:_MOST_LISTED]),
        remedies=kafka_identity.TOPIC_REMEDIES,
    )


def _compare_offsets(
    given: RuleInput, source: SourceEvidence, cluster: KafkaCluster, recreated: Collection[str]
) -> Iterator[Finding]:
    """Check whether the cluster has the offsets to read, in topics that are still the same."""
    positions = {
        partition: offset
        for partition, offset in _read_positions(given, source).items()
        if partition.topic not in recreated
    }
    gone = [partition for partition in positions if partition not in cluster.first]
    expired = {
        partition: offset
        for partition, offset in positions.items()
        if partition in cluster.first and offset < cluster.first[partition]
    }
    beyond = {
        partition: offset
        for partition, offset in positions.items()
        if partition in cluster.next and offset > cluster.next[partition]
    }
    if expired:
        yield _make_finding(
            Code.KAFKA_OFFSETS_EXPIRED,
            Severity.LOSES,
            f"A restart cannot read every record of source {source.name}: Kafka has deleted records"
            " that the query has yet to read.",
            [
                _make_clue(partition, offset, f"offsets from {cluster.first[partition]} on")
                for partition, offset in expired.items()
            ],
            "set `failOnDataLoss` to `false` to continue without those records; otherwise the query"
            " stops",
        )
    if beyond:
        yield _make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"A restart cannot continue where the query stopped: a topic of source {source.name}"
            f" ends before the offsets that were read. {_explain_short_topic(given, source)}.",
            [
                _make_clue(partition, offset, f"offsets up to {cluster.next[partition]}")
                for partition, offset in beyond.items()
            ],
            "point the query at the right cluster; or, if the topic was deleted and created again,"
            f" {advice.NEW_NAME}",
        )
    if gone:
        yield _make_finding(
            Code.KAFKA_PARTITION_GONE,
            Severity.LOSES,
            f"A restart cannot read every partition of source {source.name}: the cluster does not"
            " have all of them.",
            [
                Clue(file=_name_partition(partition), expected="a partition", found="none")
                for partition in gone
            ],
            "point the query at the right cluster, or create the topic again with its partitions",
        )


def _read_positions(given: RuleInput, source: SourceEvidence) -> dict[TopicPartition, int]:
    """Return where the next batch begins to read."""
    ranges = {item.source: item for item in given.restart.ranges}
    own: SourceRange | None = ranges.get(source.name)
    start = own.start if own is not None else source.raw
    if not isinstance(start, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): position
        for topic, partitions in start.items()
        if isinstance(partitions, dict)
        for partition, position in partitions.items()
        if isinstance(position, int) and partition.isdecimal()
    }


def _name_partition(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _make_clue(partition: TopicPartition, offset: int, found: str) -> Clue:
    return Clue(file=_name_partition(partition), expected=f"offset {offset}", found=found)


def _make_finding(
    code: Code, severity: Severity, text: str, clues: list[Clue], *remedies: str
) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        text=text,
        clues=tuple(clues[:_MOST_LISTED]),
        remedies=remedies,
    )
