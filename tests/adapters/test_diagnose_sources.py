"""Where the sources of a query begin and stand: one answer in `inspect` and `diagnose`."""

import json
import shutil
from pathlib import Path

import pytest
from tests import formats
from tests.diagnosing import codes, diagnosed, reading, reading_files, recorded
from tests.golden import GOLDEN, Golden
from tests.looking import evidence, rendered

from holdfast.model.finding import Code, Diagnosis, Finding, Judgement, Severity
from holdfast.model.json import Json, to_canonical
from holdfast.model.restart import RunForecast
from holdfast.model.spark_version import SparkVersion
from holdfast.model.verdict import Level
from holdfast.report import diagnosis, verdict
from holdfast.report.terminal import lines, text

_TABLE: dict[str, Json] = {"sourceVersion": 1, "reservoirId": "a", "isStartingVersion": False}


def table(version: int, index: int) -> Json:
    return {**_TABLE, "reservoirVersion": version, "index": index}


def reads(folder: Path, offsets: list[Json], *, began: Json = None, pending: int = 1) -> Path:
    """A checkpoint whose last batches are pending; of Kafka with where it began."""
    location = reading(folder / "c", offsets)
    for batch in range(len(offsets) - pending, len(offsets)):
        (location / f"commits/{batch}").unlink()
    if began is not None:
        (location / "sources/0").mkdir(parents=True)
        (location / "sources/0/0").write_bytes(b"\0v1\n" + to_canonical(began).encode())
    return location


def shown(found: Diagnosis) -> str:
    return lines.strip_styles(diagnosis.to_lines(found))


def finding(found: Diagnosis, code: Code) -> Finding:
    (only,) = [one for one in found.findings if one.code is code]
    return only


@pytest.mark.parametrize("end", [10, 12])
def test_the_first_batch_of_kafka_begins_where_the_source_began(tmp_path: Path, end: int) -> None:
    location = reads(tmp_path, [{"t": {"0": end}}], began={"t": {"0": 10}})
    found, seen = diagnosed(location), evidence(location)
    (source,), (read,) = seen.sources, found.restart.ranges
    assert read.start == {"t": {"0": 10}}
    assert read.consumed == source.consumed
    assert f"t-0: 10 → {end}" in shown(found)
    assert f"10 → {end}" in lines.strip_styles(text.to_lines(seen))
    assert seen.timeline[0].records == end - 10


@pytest.mark.parametrize(
    ("offsets", "began"),
    [
        ([{"t": {"0": 10}}], {"t": {"0": 10}}),
        ([{"t": {"0": 10}}, {"t": {"0": 10}}], None),
        ([{"t": {"0": 10}}, {"t": {"0": 10, "1": 0}}], None),
        ([table(3, -1), table(3, -1)], None),
        ([{"offset": 20, "timestamp": 1}, {"offset": 20, "timestamp": 1}], None),
        ([-1], None),
    ],
    ids=str,
)
def test_a_pending_batch_without_rows_raises_no_alarm(
    tmp_path: Path, offsets: list[Json], began: Json
) -> None:
    location = reads(tmp_path, offsets, began=began)
    found = diagnosed(location)
    assert finding(found, Code.PENDING_BATCH).severity is Severity.NOTE
    assert "has no rows to read" in finding(found, Code.PENDING_BATCH).text
    assert found.judgement is Judgement.SAFE
    assert verdict.judge(evidence(location)).level is Level.GOOD


@pytest.mark.parametrize(
    "offsets",
    [
        [{"t": {"0": 10}}],
        [{"t": {"0": 10}}, {"t": {"0": 10, "1": 1}}],
        [{"t": {"0": 10}}, {"t": {"0": 11}}],
        [table(3, -1), table(3, 0)],
        [table(3, 5), table(4, -1)],
    ],
    ids=str,
)
def test_a_pending_batch_that_may_have_rows_is_told(tmp_path: Path, offsets: list[Json]) -> None:
    found = diagnosed(reads(tmp_path, offsets))
    assert finding(found, Code.PENDING_BATCH).severity is Severity.UNDEFINED


def test_a_pending_batch_without_rows_of_a_query_with_state_may_write(tmp_path: Path) -> None:
    location = reads(tmp_path, [{"t": {"0": 10}}, {"t": {"0": 10}}])
    (location / "state/0/0").mkdir(parents=True)
    (location / "state/0/0/1.delta").write_bytes(b"")
    found = diagnosed(location)
    assert finding(found, Code.PENDING_BATCH).severity is Severity.UNDEFINED


def test_a_pending_batch_of_files_without_files(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    (location / "commits/2").unlink()
    assert finding(diagnosed(location), Code.PENDING_BATCH).severity is Severity.UNDEFINED
    entry = (location / "offsets/2").read_text().replace('"logOffset":2', '"logOffset":1')
    (location / "offsets/2").write_text(entry)
    assert finding(diagnosed(location), Code.PENDING_BATCH).severity is Severity.NOTE


def test_skipped_batches_without_rows_lose_nothing(tmp_path: Path) -> None:
    rows: list[Json] = [{"t": {"0": at}} for at in (1, 2, 3, 4)]
    lost = diagnosed(reads(tmp_path / "rows", rows, pending=3))
    assert finding(lost, Code.BATCHES_SKIPPED).severity is Severity.LOSES
    none = diagnosed(reads(tmp_path / "none", [rows[0], rows[0], rows[0], rows[1]], pending=3))
    assert finding(none, Code.BATCHES_SKIPPED).severity is Severity.NOTE
    assert none.judgement is Judgement.UNDEFINED


@pytest.mark.parametrize(
    ("offsets", "pending", "runs", "severity", "told"),
    [
        ([-1], 0, RunForecast.NOT, Severity.BLOCKS, "never connects"),
        ([-1], 1, RunForecast.SURELY, Severity.NOTE, "read what it sends from then on"),
        ([-1, 7], 0, RunForecast.SURELY, Severity.LOSES, "run batch 2 at once without rows"),
        ([-1, 7], 1, RunForecast.SURELY, Severity.LOSES, "run batch 1 again without its rows"),
    ],
)
def test_what_a_socket_does_is_told_for_each_shape(
    tmp_path: Path,
    offsets: list[Json],
    pending: int,
    runs: RunForecast,
    severity: Severity,
    told: str,
) -> None:
    location = reads(tmp_path, offsets, pending=pending)
    found = diagnosed(location)
    assert found.restart.runs is runs
    alike = finding(found, Code.SOURCE_NOT_REPLAYABLE)
    assert told in alike.text
    assert alike.severity is (Severity.NOTE if severity is Severity.NOTE else Severity.UNDEFINED)
    recorded(location, sources=["TextSocketV2[host: 127.0.0.1, port: 9999]"])
    sure = diagnosed(location)
    assert finding(sure, Code.SOURCE_NOT_REPLAYABLE).severity is severity
    assert [one.batch for one in sure.restart.later] == (
        [] if offsets[-1] == -1 else [len(offsets) + 1]
    )


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.scenario == "socket"], ids=str)
def test_a_socket_fails_as_each_version_of_spark_did(tmp_path: Path, golden: Golden) -> None:
    """The second run of each golden checkpoint began at rest, after some lines."""
    location = shutil.copytree(golden.checkpoint, tmp_path / "c")
    for log in ("offsets", "commits"):
        for number in (2, 3):
            (location / f"{log}/{number}").unlink(missing_ok=True)
            (location / f"{log}/.{number}.crc").unlink(missing_ok=True)
    major, minor = (int(part) for part in golden.version.split(".")[:2])
    restart = diagnosed(location, spark=SparkVersion(major, minor)).restart
    planned = max(
        int(one.name) for one in (golden.checkpoint / "offsets").iterdir() if one.name.isdecimal()
    )
    runs = golden.expected["runs"]
    assert isinstance(runs, list)
    said = str(runs[1]["error"])
    (error,) = [one for one in (restart.error, *restart.later) if one is not None]
    assert error.batch == planned
    assert restart.batch == 2
    expected = "IllegalStateException" if "out of order" in said else "IndexOutOfBoundsException"
    assert error.exceptions == (expected,)


FILES, KAFKA, RATE = (
    b'v1\n{"path":"file:///in/0.json","timestamp":1,"batchId":0}',
    b'\0v1\n{"t":{"0":0}}',
    b"v1\n1767225600000",
)
LINES: dict[str, Json] = {
    "files": {"logOffset": 0},
    "Kafka": {"t": {"0": 1}},
    "Delta": table(1, -1),
    "rate": 1,
    "rate-micro-batch": {"offset": 2, "timestamp": 0},
    "Iceberg": {"version": 1, "snapshot_id": 7, "position": 2, "scan_all_files": True},
    "unknown": {"a": "b"},
    "text": "x",
    "list": [1],
    "fraction": 1.5,
}
READ = {"files": {"files", "rate"}, "Kafka": {"Kafka"}, "rate": {"rate"}}


@pytest.mark.parametrize("pending", [0, 1])
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    ("kept", "data"),
    [("files", FILES), ("Kafka", KAFKA), ("rate", RATE)],
    ids=["files kept", "Kafka kept", "rate kept"],
)
def test_a_line_that_the_source_of_the_folder_cannot_read_fails(
    tmp_path: Path, kept: str, data: bytes, line: str, pending: int
) -> None:
    """As real Spark was seen to do with each of the three, in `tests/spark`."""
    location = reads(tmp_path, [LINES[line]], pending=pending)
    (location / "sources/0").mkdir(parents=True)
    (location / "sources/0/0").write_bytes(data)
    found = diagnosed(location)
    if line in READ[kept]:
        assert Code.OFFSET_OF_OTHER_SOURCE not in codes(found)
        return
    error = found.restart.error
    assert error is not None
    expected = {
        "files": "MappingException",
        "Kafka": "IllegalArgumentException",
        "rate": "NumberFormatException",
    }
    assert error.exceptions[0] == expected[kept]
    assert found.judgement is (Judgement.UNDEFINED if error.unless else Judgement.UNSAFE)
    assert Code.OFFSET_OF_OTHER_SOURCE in codes(found)
    assert bool(error.unless) is (
        line in ("Delta", "rate", "rate-micro-batch", "Iceberg", "unknown")
        or (kept, line) == ("rate", "Kafka")
    )


def test_a_folder_that_is_left_over_stops_nothing_where_a_record_names_the_source(
    tmp_path: Path,
) -> None:
    location = reads(tmp_path, [LINES["Delta"]], pending=0)
    (location / "sources/0").mkdir(parents=True)
    (location / "sources/0/0").write_bytes(FILES)
    recorded(location, sources=["DeltaSource[file:/table]"])
    found = diagnosed(location)
    assert found.restart.error is None
    assert Code.OFFSET_OF_OTHER_SOURCE not in codes(found)


@pytest.mark.parametrize("offset", [one for one in formats.OFFSETS if one is not None], ids=str)
def test_positions_are_shown_alike_everywhere(tmp_path: Path, offset: Json) -> None:
    """At rest `diagnose` prints where a source stands as `inspect` does, and no raw JSON."""
    location = reading(tmp_path / "c", [offset, offset])
    found, seen = diagnosed(location), evidence(location)
    printed = " ".join(shown(found).split())
    raw = json.dumps(offset, separators=(",", ":"))
    for source, read in zip(seen.sources, found.restart.ranges, strict=True):
        ends = {one.partition: one.end for one in source.consumed.partitions}
        if not source.open_ended:
            assert dict(read.positions) == ends
        for partition, at in read.positions[:5]:
            forms = (f"{partition} from {at}", f"{partition}: {at} →")
            assert any(form.strip() in printed for form in forms)
            if not source.open_ended:
                assert all(at in " ".join(form.split()) for form in rendered(seen)[1:3])
    if raw.startswith("{") and all("opaque" not in one.kind for one in seen.sources):
        assert raw not in printed
