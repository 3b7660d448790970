"""The nine facts of checkpoints that real Spark wrote, against what Spark itself said of them."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.golden import GOLDEN, Golden, each
from tests.looking import evidence, rendered, stamps

from holdfast.errors import HoldfastError, InspectionRefused
from holdfast.model.evidence import BatchStatus, Evidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.spark_version import VersionRange
from holdfast.model.verdict import Level
from holdfast.report import document, verdict
from holdfast.report.terminal import lines, text

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def said(golden: Golden, key: str) -> object:
    """What Spark said."""
    return golden.expected.get(key)


def progress(golden: Golden) -> list[Mapping[str, object]]:
    """Every batch that Spark reported, the last report of each."""
    return list({one["batchId"]: one for one in golden.progress}.values())


def test_there_are_checkpoints() -> None:
    assert len(GOLDEN) > 40


@each
def test_the_nine_facts(golden: Golden) -> None:
    before = stamps(golden.checkpoint)
    found = evidence(golden.checkpoint)
    assert stamps(golden.checkpoint) == before
    assert found.location.value == str(golden.checkpoint)
    assert isinstance(found.query_id, Known)
    assert (found.query_id.value, found.query_id.read_from) == (
        said(golden, "query_id"),
        ("metadata",),
    )
    _sink(golden, found)
    _provider(golden, found)
    _version(golden, found)
    _output_mode(golden, found)
    _operators(golden, found)
    _offsets(golden, found)
    _batches(golden, found)
    if golden.scenario.startswith("continuous"):  # which writes no times and pins nothing
        assert isinstance(found.restart_history, Unknown)
    else:
        assert isinstance(found.restart_history, Known)
        assert found.restart_history.inferred
    assert (found.unreadable, found.unreadable_more) == ((), 0)
    for form in rendered(found):
        assert str(said(golden, "query_id")) in form


def _sink(golden: Golden, found: Evidence) -> None:
    if golden.scenario == "commits-3" and isinstance(found.sink, Known):
        assert found.sink.read_from[0].startswith("commits/")
    else:
        assert isinstance(found.sink, Unknown)


def _provider(golden: Golden, found: Evidence) -> None:
    conf = said(golden, "conf")
    assert isinstance(conf, Mapping)
    if golden.scenario.startswith("continuous"):  # which pins no settings
        assert isinstance(found.state_store_provider, Unknown)
        return
    if _line(golden) < (2, 3) and isinstance(found.stateful_operators, Absent):
        assert not isinstance(found.state_store_provider, Known)  # which it does not pin yet
        return
    assert isinstance(found.state_store_provider, Known)
    if golden.scenario == "real-time":  # for which Spark 4.3 chooses the provider itself
        return
    assert found.state_store_provider.value == conf.get(_PROVIDER, found.state_store_provider.value)


def _version(golden: Golden, found: Evidence) -> None:
    assert isinstance(found.spark_versions, VersionRange)
    assert found.spark_versions.lowest <= _line(golden) <= found.spark_versions.highest
    assert isinstance(found.spark_version, Known)
    assert found.spark_version.inferred


def _line(golden: Golden) -> tuple[int, ...]:
    return tuple(int(part) for part in golden.version.split(".")[:2])


def _output_mode(golden: Golden, found: Evidence) -> None:
    operators = found.stateful_operators
    if isinstance(operators, Known) and operators.value[0].startswith("transformWithState"):
        assert isinstance(found.output_mode, Known)
        assert found.output_mode.value == said(golden, "output_mode")
    else:
        assert isinstance(found.output_mode, Unknown)


def _operators(golden: Golden, found: Evidence) -> None:
    reports = progress(golden)
    operators = reports[-1]["stateOperators"] if reports else []
    assert isinstance(operators, list)
    if not operators:
        return
    assert isinstance(found.stateful_operators, Known)
    told = found.stateful_operators.value
    if "operatorName" not in operators[0]:  # Spark 3.0 and earlier do not tell
        assert len(told) == len(operators)
        return
    names = sorted(str(one["operatorName"]) for one in operators)
    if found.stateful_operators.inferred and _line(golden) < (4, 0):
        # The columns of a user's own state do not tell which function made it.
        own = [one for one in names if one.endswith("WithState")]
        assert len([one for one in told if one.startswith("operator ")]) == len(own)
        told = tuple(own[0] if one.startswith("operator ") else one for one in told)
        # Spark has no name for it before 4.0.
        names = [one.replace("defaultName", "sessionWindowStateStoreSaveExec") for one in names]
    assert sorted(told) == names
    counted = [one for one in found.operators if isinstance(one.rows, int)]
    totals = {str(one["operatorName"]): one["numRowsTotal"] for one in operators}
    for one in counted:
        if isinstance(one.name, Known) and len(totals) == len(operators) == 1:
            assert one.rows == totals[one.name.value]


def _offsets(golden: Golden, found: Evidence) -> None:
    """The end offsets of the last batch that Spark reported, as the offset log has them."""
    reports = progress(golden)
    if not reports or found.batches.last_planned != reports[-1]["batchId"]:
        return
    sources = reports[-1]["sources"]
    assert isinstance(sources, list)
    ours = [json.loads(json.dumps(one.raw)) for one in found.sources]
    theirs = [_parsed(one["endOffset"]) for one in sources]
    assert isinstance(found.source_offsets, Known)
    assert len(found.source_offsets.value) == len(theirs)
    if not golden.scenario.startswith(("continuous", "asynchronous")):
        assert sorted(map(str, ours)) == sorted(map(str, theirs))


def _parsed(value: object) -> object:
    """Spark shows an offset as JSON, or as text where it is no JSON object."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+|\{.*\}|\[.*\]", value):
        return json.loads(value)
    return value


def _batches(golden: Golden, found: Evidence) -> None:
    committed = said(golden, "committed") or []
    assert isinstance(committed, list)
    runs = said(golden, "runs")
    assert isinstance(runs, list)
    killed = [
        r["planned_not_committed"] for r in runs if r.get("planned_not_committed") is not None
    ]
    if golden.scenario.startswith(("asynchronous", "continuous")):
        return
    if found.batches.no_commit_log:
        assert _line(golden) == (2, 1)
        assert found.batches.last_committed is None
        assert list(found.batches.pending) == (killed or [max(committed)])
        assert {one.standing for one in found.timeline[:-1]} == {BatchStatus.UNLOGGED}
        assert verdict.judge(found).level is Level.CAREFUL
    elif killed and runs[-1].get("ended") == "killed":
        assert found.batches.last_planned == killed[-1]
        assert list(found.batches.pending) == [killed[-1]]
        assert verdict.judge(found).level is Level.CAREFUL
    elif committed:
        last = max(committed)
        assert found.batches.last_committed == last
        whole = said(golden, "trigger") == "AvailableNow" and runs[-1]["ended"] == "stopped"
        # A query that is stopped in the middle, or fails, leaves a batch that it has planned.
        assert list(found.batches.pending) in ([[]] if whole else [[], [last + 1]])
        # A socket that ends at -1 has read nothing in its pending batch.
        empty = golden.scenario == "socket" and found.sources[0].raw == -1
        careful = found.batches.pending and not empty
        assert verdict.judge(found).level is (Level.CAREFUL if careful else Level.GOOD)


def damaged(golden: Golden, copy: Path) -> Iterator[str]:
    """Every file removed, emptied, cut in half and with a bit flipped, one at a time."""
    for path in sorted(golden.checkpoint.rglob("*")):
        if path.is_dir() or path.name.endswith(".crc"):
            continue
        data = path.read_bytes()
        target = copy / path.relative_to(golden.checkpoint)
        middle = len(data) // 2
        flipped = (
            data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :] if data else b"x"
        )
        for how, content in (
            ("removed", None),
            ("emptied", b""),
            ("cut", data[:middle]),
            ("flipped", flipped),
        ):
            if content is None:
                target.unlink()
            else:
                target.write_bytes(content)
            yield f"{target.relative_to(copy)} {how}"
        target.write_bytes(data)


_TELLING = ("aggregate-rocksdb", "files-compact", "join-inner-hdfs", "kafka", "tws-avro")
"""Together they hold every kind of file; the others are damaged in `make prove`."""
NEWEST_TELLING = {one.scenario: one for one in GOLDEN if one.scenario in _TELLING}.values()


@pytest.mark.parametrize("golden", NEWEST_TELLING, ids=str)
def test_any_damage_gives_a_report(golden: Golden, tmp_path: Path) -> None:
    copy = tmp_path / "checkpoint"
    shutil.copytree(golden.checkpoint, copy)
    whole = document.to_json(evidence(copy))
    changed = 0
    for how in damaged(golden, copy):
        try:
            found = evidence(copy)
        except InspectionRefused:
            continue  # nothing is left that tells it from any other folder
        except HoldfastError as error:
            raise AssertionError(how) from error
        shown = document.to_json(found)
        changed += shown != whole
        assert lines.strip_styles(text.to_lines(found)), how
    assert changed > 0


@pytest.mark.prove
@each
def test_any_damage_to_any_checkpoint_gives_a_report(golden: Golden, tmp_path: Path) -> None:
    test_any_damage_gives_a_report(golden, tmp_path)


def test_a_commit_that_is_lost_is_a_pending_batch(tmp_path: Path) -> None:
    whole = [one for one in GOLDEN if one.scenario == "files-union" and _line(one) > (2, 1)]
    for golden in whole:
        copy = tmp_path / golden.version
        shutil.copytree(golden.checkpoint, copy)
        last = evidence(copy).batches.last_committed
        assert last is not None
        (copy / f"commits/{last}").unlink()
        found = evidence(copy)
        assert list(found.batches.pending) == [last]


def test_every_restart_of_spark_2_1_runs_the_last_batch_again() -> None:
    """As `inspect` says of a checkpoint without a commit log; later ones go on with the next."""
    for golden in (one for one in GOLDEN if one.scenario in ("files-union", "aggregate-hdfs")):
        runs = said(golden, "runs")
        assert isinstance(runs, list)
        before = max(one["batchId"] for one in runs[0]["progress"] if one["numInputRows"])
        first = runs[1]["progress"][0]["batchId"]
        assert (first == before) == (_line(golden) == (2, 1)), golden


def test_a_stateless_query_has_no_stateful_operators() -> None:
    plain = [one for one in GOLDEN if one.scenario == "files-union"]
    assert plain
    for golden in plain:
        assert isinstance(evidence(golden.checkpoint).stateful_operators, Absent)
