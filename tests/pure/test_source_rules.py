"""What Kafka's answer means for the offsets of a checkpoint, and the log of a file source."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.looking import evidence

from holdfast.diagnose.rules.sources import topics
from holdfast.model.evidence import SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Finding, RuleInput
from holdfast.model.fingerprint import NOT_IDENTIFIED
from holdfast.model.ids import Span
from holdfast.model.source_offset import TopicPartition
from holdfast.model.spark_version import SparkVersion
from holdfast.model.surroundings import KafkaCluster, LocationFacts, Surroundings
from holdfast.predict import candidates, restart, source_log

LASTING = LocationFacts(
    url="/data/c", path="/data/c", temporary="/scratch", file_system="ext4", checkpoint_above=None
)
NOTHING = Surroundings(
    location=LASTING,
    files_gone=(),
    landing={},
    same_query=(),
    delta={},
    kafka=Unknown(reason="not asked"),
    start_settings={},
)
WHOLE = {"0": (0, 50), "1": (0, 50)}


def found(
    folder: Path, partitions: Mapping[str, tuple[int, int]], *, committed: int = 3
) -> set[Code]:
    """What is found where Kafka has these first and next offsets; the batch begins at 30, or 20."""
    seen = evidence(files.write(folder / "c", committed=committed))
    how = candidates.choose_start(seen, SparkVersion(4, 1), asynchronous=False)
    offsets = {TopicPartition("orders", int(name)): told for name, told in partitions.items()}
    cluster = KafkaCluster(
        servers="broker:9092",
        first={one: told[0] for one, told in offsets.items()},
        next={one: told[1] for one, told in offsets.items()},
        identity=NOT_IDENTIFIED,
    )
    around = replace(NOTHING, kafka=cluster)
    answers = topics.evaluate(
        RuleInput(evidence=seen, restart=restart.predict(seen, how), surroundings=around)
    )
    return {one.code for one in answers if isinstance(one, Finding)}


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (WHOLE, set()),
        ({"0": (30, 30), "1": (30, 31)}, set()),
        ({"0": (31, 50), "1": (0, 50)}, {Code.KAFKA_OFFSETS_EXPIRED}),
        ({"0": (0, 29), "1": (0, 50)}, {Code.KAFKA_TOPIC_RECREATED}),
        ({"0": (0, 50)}, {Code.KAFKA_PARTITION_GONE}),
        ({}, {Code.KAFKA_PARTITION_GONE}),
    ],
)
def test_offsets_beside_what_kafka_has(
    tmp_path: Path, partitions: dict[str, tuple[int, int]], expected: set[Code]
) -> None:
    assert found(tmp_path, partitions) == expected


def test_a_pending_batch_reads_from_its_start(tmp_path: Path) -> None:
    assert found(tmp_path / "rest", {"0": (25, 50), "1": (0, 50)}) == set()
    again = found(tmp_path / "again", {"0": (25, 50), "1": (0, 50)}, committed=2)
    assert again == {Code.KAFKA_OFFSETS_EXPIRED}


def log(entries: list[tuple[int, int]], compacts: list[int]) -> SourceLog:
    return SourceLog(
        is_file_log=True,
        entries=tuple(Span(first=first, last=last) for first, last in entries),
        compacts=tuple(Span(first=one, last=one) for one in compacts),
        damaged=(),
    )


@pytest.mark.parametrize(
    ("seen", "required"),
    [
        (log([], []), range(0)),
        (log([(0, 4)], []), range(5)),
        (log([(0, 8), (10, 12)], [9]), range(9, 13)),
        (log([(10, 18), (20, 21)], [9, 19]), range(19, 22)),
        # One compacted entry alone: the interval is the smallest divisor of 30 that is at least 10.
        (log([(30, 31)], [29]), range(29, 32)),
        (log([(6, 7)], [5]), range(5, 8)),
        # Plain entries where ten would have compacted them: the setting was larger.
        (log([(0, 15)], []), range(16)),
        (log([(30, 39)], [29]), range(29, 40)),
        (log([(20, 29)], [19]), range(19, 30)),
    ],
)
def test_what_a_source_reads_when_it_is_made(seen: SourceLog, required: range) -> None:
    assert source_log.find_required(seen) == required
    assert source_log.find_absent(seen, required) == ()


def test_what_is_missing_is_looked_up_in_the_last_compacted_entry() -> None:
    seen = log([(10, 12)], [9])
    assert source_log.find_absent(seen, range(8, 13)) == (8,)
    assert source_log.find_unknown(seen, range(8, 13)) == ()
    assert source_log.find_unknown(seen, range(8, 15)) == (13, 14)


@pytest.mark.parametrize(
    ("seen", "least"),
    [
        (log([(0, 8), (10, 12)], [9]), 10),
        (log([(0, 15)], []), 17),
        (log([(30, 31)], [29]), 10),
        (log([(30, 39)], [29]), 11),
        (log([(30, 45)], [29]), 16),
        (log([(10, 108)], [49, 99]), 10),
    ],
)
def test_the_setting_that_a_log_was_written_with(seen: SourceLog, least: int) -> None:
    assert source_log.find_least_setting(seen) == least
