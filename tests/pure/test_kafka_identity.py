"""What other ids of a cluster or a topic mean, for a query to come and for a checkpoint alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import recorded
from tests.looking import evidence

from holdfast.decode import fingerprint as plans
from holdfast.diagnose import check
from holdfast.diagnose.rules.sources import topics
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, RuleInput, Severity
from holdfast.model.fingerprint import (
    NOT_IDENTIFIED,
    NOT_RECORDED,
    Fingerprint,
    KafkaIdentity,
    PlanSource,
    make_identity,
)
from holdfast.model.source_offset import TopicPartition
from holdfast.model.spark_version import SparkVersion
from holdfast.model.surroundings import KafkaCluster, LocationFacts, Surroundings
from holdfast.predict import candidates, restart

HERE = KafkaIdentity(cluster="a", topics={"orders": "1", "bills": "2"})
ELSEWHERE = replace(HERE, cluster="b")
ANEW = replace(HERE, topics={"orders": "3", "bills": "2"})
UNTOUCHED = replace(HERE, topics={"orders": "1", "bills": "4"})  # no offset is of `bills`
NOT_ASKED = Unknown(reason="its cluster did not answer")
SERVERS = "kafka.bootstrap.servers"
SOURCE = PlanSource(
    name="", kind="Kafka", target="orders", options={SERVERS: "a:9092"}, columns=(), identity=HERE
)
PLAN = Fingerprint(
    spark_version="4.1.1",
    sources=(SOURCE,),
    watermarks=(),
    operators=(),
    steps=(),
    columns=(),
    functions={},
    sinks=(),
    output_mode="append",
    settings={},
)
Told = set[tuple[Code, Severity]]

LASTING = LocationFacts(
    url="/data/c", path="/data/c", temporary="/scratch", file_system="ext4", checkpoint_above=None
)


def of(*sources: PlanSource) -> Fingerprint:
    return replace(PLAN, sources=sources)


def looked(folder: Path, plan: Fingerprint | None = PLAN) -> Evidence:
    """A checkpoint of a topic of two partitions, at 30 of each."""
    location = files.write(folder / "orders")
    if plan is not None:
        recorded(location, plan=plans.encode(plan))
    return evidence(location)


def changed(seen: Evidence, *sources: PlanSource) -> tuple[Told, list[NotAssessed]]:
    found = check.judge("orders", QueryChange(evidence=seen, new=of(*sources)))
    ours = [one for one in found.not_assessed if "still reads the same" in one.question]
    return {(one.code, one.severity) for one in found.findings}, ours


OTHER_CLUSTER = {(Code.KAFKA_CLUSTER_CHANGED, Severity.LOSES)}
RECREATED = {(Code.KAFKA_TOPIC_RECREATED, Severity.LOSES)}


@pytest.mark.parametrize(
    ("now", "servers", "expected"),
    [
        (HERE, "a:9092", set()),
        (HERE, "localhost:9092", {(Code.SOURCE_OPTION_CHANGED, Severity.NOTE)}),
        (NOT_ASKED, "localhost:9092", {(Code.SOURCE_OPTION_CHANGED, Severity.UNDEFINED)}),
        (ELSEWHERE, "b:9092", OTHER_CLUSTER),
        (ELSEWHERE, "a:9092", OTHER_CLUSTER),
        (ANEW, "a:9092", RECREATED),
        (ANEW, "localhost:9092", {*RECREATED, (Code.SOURCE_OPTION_CHANGED, Severity.NOTE)}),
        (UNTOUCHED, "a:9092", set()),
    ],
)
def test_a_query_to_come(
    now: KafkaIdentity | Unknown, servers: str, expected: Told, tmp_path: Path
) -> None:
    new = replace(SOURCE, options={SERVERS: servers}, identity=now)
    found, not_assessed = changed(looked(tmp_path), new)
    assert found == expected
    assert [one.reason for one in not_assessed] == (
        [NOT_ASKED.reason] if isinstance(now, Unknown) else []
    )


def test_a_record_of_before_tells_no_ids(tmp_path: Path) -> None:
    seen = looked(tmp_path, of(replace(SOURCE, identity=NOT_IDENTIFIED)))
    found, not_assessed = changed(seen, replace(SOURCE, identity=ANEW))
    assert found == set()
    assert [one.reason for one in not_assessed] == [NOT_IDENTIFIED.reason]


def test_a_topic_that_is_not_there_is_not_assessed(tmp_path: Path) -> None:
    found, not_assessed = changed(
        looked(tmp_path), replace(SOURCE, identity=replace(HERE, topics={}))
    )
    assert found == set()
    assert [one.question for one in not_assessed] == [
        "whether source 0 still reads the same topic orders"
    ]


def test_where_nothing_was_read_no_offset_is_of_another_topic(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    recorded(location, plan=plans.encode(PLAN))
    for entry in (location / "offsets").iterdir():
        head = entry.read_text().rpartition("\n")[0]
        entry.write_text(f'{head}\n{{"orders":{{"0":0,"1":0}}}}')
    for now in (ANEW, ELSEWHERE):
        assert changed(evidence(location), replace(SOURCE, identity=now)) == (set(), [])


def diagnosed(seen: Evidence, now: KafkaIdentity | Unknown, end: int = 50) -> tuple[Told, set[str]]:
    """What is found where a cluster of these ids has offsets up to an end."""
    how = candidates.choose_start(seen, SparkVersion(4, 1), asynchronous=False)
    both = [TopicPartition("orders", number) for number in (0, 1)]
    around = Surroundings(
        location=LASTING,
        files_gone=(),
        same_query=(),
        delta={},
        kafka=KafkaCluster(
            servers="a:9092",
            first=dict.fromkeys(both, 0),
            next=dict.fromkeys(both, end),
            identity=now,
        ),
        start_settings={},
        landing={},
    )
    whole = RuleInput(evidence=seen, restart=restart.predict(seen, how), surroundings=around)
    answers = list(topics.evaluate(whole))
    return (
        {(one.code, one.severity) for one in answers if isinstance(one, Finding)},
        {one.reason for one in answers if isinstance(one, NotAssessed)},
    )


@pytest.mark.parametrize(
    ("now", "end", "expected"),
    [
        (HERE, 50, set()),
        (UNTOUCHED, 50, set()),
        (ANEW, 50, RECREATED),
        (ANEW, 20, RECREATED),
        (ELSEWHERE, 50, OTHER_CLUSTER),
        (ELSEWHERE, 20, OTHER_CLUSTER),
        (HERE, 20, RECREATED),
    ],
)
def test_a_checkpoint_alone(now: KafkaIdentity, end: int, expected: Told, tmp_path: Path) -> None:
    assert diagnosed(looked(tmp_path), now, end) == (expected, set())


def test_what_is_not_known_of_either_side_is_told(tmp_path: Path) -> None:
    for name, plan, now, reason in (
        ("no record", None, HERE, NOT_RECORDED.reason),
        ("no ids", of(replace(SOURCE, identity=NOT_IDENTIFIED)), HERE, NOT_IDENTIFIED.reason),
        ("no answer", PLAN, NOT_ASKED, NOT_ASKED.reason),
    ):
        assert diagnosed(looked(tmp_path / name, plan), now) == (set(), {reason}), name


def test_the_cluster_of_another_source_is_no_other_cluster(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    recorded(location, plan=plans.encode(of(SOURCE, replace(SOURCE, identity=ELSEWHERE))))
    for entry in (location / "offsets").iterdir():
        entry.write_text(entry.read_text() + '\n{"orders":{"0":30,"1":30}}')
    found, reasons = diagnosed(evidence(location), HERE)
    assert (found, reasons) == (set(), {"`a:9092` is the cluster of another source"})


@pytest.mark.parametrize(
    ("cluster", "topics", "expected"),
    [
        ("a", {"orders": "1"}, {"orders": "1"}),
        ("a", {"orders": "AAAAAAAAAAAAAAAAAAAAAA", "bills": ""}, {}),
        ("", {"orders": "1"}, None),
    ],
)
def test_what_old_brokers_do_not_tell_is_no_id(
    cluster: str, topics: Mapping[str, str], expected: Mapping[str, str] | None
) -> None:
    found = make_identity(cluster, topics)
    assert (found.topics if isinstance(found, KafkaIdentity) else None) == expected
