"""The Kafka partitions that Spark stops at when a batch runs again: SourceRange -> StartError.

Spark compares the start of the range with its end before it reads. It treats a partition that is in
the start but not in the end, or that ends before it begins, as lost data. With `failOnDataLoss`,
which is the default, the batch fails at every start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.ids import BatchId
from holdfast.model.restart import SourceRange, Stage, StartError
from holdfast.model.source_offset import KafkaOffset, Movement, NoOffset, PartitionChange
from holdfast.spark import exceptions

DATA_LOSS = "KAFKA_DATA_LOSS"
_MOST_NAMED = 10


def find_errors(
    evidence: Evidence, ranges: Sequence[SourceRange], batch: BatchId
) -> Iterator[StartError]:
    """Yield the error at each source whose range Spark refuses."""
    kafka = {source.name for source in evidence.sources if isinstance(source.offset, KafkaOffset)}
    for own in ranges:
        if own.source not in kafka or fails_on_loss(evidence, own.source) is False:
            continue
        gone, back = list_changed(own, Movement.VANISHED), list_changed(own, Movement.WENT_BACK)
        if gone:
            reason = f"batch {batch} begins in {name_partitions(gone)} and has no end there"
        elif back:
            reason = f"batch {batch} ends before it begins in {name_partitions(back)}"
        else:
            continue
        error = exceptions.make_error(
            DATA_LOSS,
            ("KafkaIllegalStateException", "IllegalStateException"),
            reason,
            f"offsets/{batch}",
            stage=Stage.PLANNING,
            batch=batch,
        )
        is_sure = fails_on_loss(evidence, own.source) is True
        yield (
            error
            if is_sure
            else replace(error, unless="the query sets `failOnDataLoss` to `false`")
        )


def list_changed(own: SourceRange, change: Movement) -> tuple[PartitionChange, ...]:
    """Return the partitions of a range that changed in one way."""
    start = source_offset.decode(own.start)
    if isinstance(own.consumed, Unknown) or not isinstance(start, KafkaOffset | NoOffset):
        return ()
    return tuple(partition for partition in own.consumed.partitions if partition.change is change)


def fails_on_loss(evidence: Evidence, source: str) -> bool | Unknown:
    """Return whether the query fails on lost data; only a run record shows the option."""
    plan = evidence.plan
    if not isinstance(plan, Known):
        return Unknown(reason="no run record shows the options of the source")
    recorded = plan.value.by_name.get(source)
    if recorded is None:
        return Unknown(reason="the run record does not name the source")
    options = {key.lower(): value.lower() for key, value in recorded.options.items()}
    return options.get("failondataloss", "true") != "false"


def name_partitions(changes: Sequence[PartitionChange]) -> str:
    """Return partitions in words, grouped by topic."""
    topics: dict[str, list[str]] = {}
    for change in changes[:_MOST_NAMED]:
        topic, _, number = change.partition.rpartition("-")
        topics.setdefault(topic, []).append(number)
    more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return " and ".join(_name_topic(*topic) for topic in _sort_topics(topics)) + more


def name_topics(partitions: Sequence[str]) -> str:
    """Return the topics of partitions, in words."""
    names = dict.fromkeys(partition.rpartition("-")[0] for partition in partitions)
    return " and ".join(f"`{name}`" for name in sorted(names))


def _sort_topics(topics: Mapping[str, list[str]]) -> list[tuple[str, list[str]]]:
    return [(topic, sorted(topics[topic], key=int)) for topic in sorted(topics)]


def _name_topic(topic: str, numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]} of topic `{topic}`"
    return f"partitions {', '.join(numbers[:-1])} and {numbers[-1]} of topic `{topic}`"
