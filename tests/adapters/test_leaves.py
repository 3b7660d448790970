"""One source that is read at several places of a plan: which folder and description its lines have.

The checkpoints are written as Spark 4.1 was seen to write them: a line for each leaf of the plan, a
folder and a description for each source, by its first leaf.
"""

import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, recorded
from tests.formats import LISTENER
from tests.golden import Golden, golden
from tests.json_schema import problems
from tests.looking import evidence, rendered

from holdfast import ops
from holdfast.gather.sources import offset_lines
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Diagnosis, Judgement
from holdfast.model.json import Json, to_canonical
from holdfast.model.restart import Stage
from holdfast.model.spark_version import SparkVersion
from holdfast.predict.restart import STATE_LOST
from holdfast.report import document

_LOST = {Code.SOURCE_LOG_BEHIND, Code.SOURCE_LOG_AHEAD, Code.SOURCE_LOG_DAMAGED}
_FILES = {"a": "in1", "b": "in2", "c": "in3"}


def _offset(source: str, batch: int) -> Json:
    """Where a source stands after a batch: `b` never moves, `c` goes as `a` does."""
    if source in _FILES:
        return {"logOffset": 0 if source == "b" else batch}
    return {"orders": {"0": 10 * batch}} if source == "k" else {"d": source, "at": batch}


def _description(source: str) -> str:
    return f"FileStreamSource[file:/{_FILES[source]}]" if source in _FILES else f"Other[{source}]"


def checkpoint(location: Path, plan: str, *, batches: int = 3) -> Path:
    """What Spark leaves of a plan with leaves `a`, `b` and `c` (files), `k` (Kafka), or another."""
    files.write(location, planned=batches, committed=batches)
    for batch in range(batches):
        path = location / f"offsets/{batch}"
        head = "\n".join(path.read_text().split("\n")[:2])
        path.write_text("\n".join([head, *(to_canonical(_offset(one, batch)) for one in plan)]))
    for number, source in enumerate(dict.fromkeys(plan)):
        folder = location / f"sources/{number}"
        if source in _FILES:
            folder.mkdir(parents=True)
            for offset in range(1 if source == "b" else batches):
                named = f"file:///{_FILES[source]}/{offset}"
                entry = {"path": named, "timestamp": 7, "batchId": offset}
                (folder / str(offset)).write_text(f"v1\n{json.dumps(entry)}")
        elif source == "k":
            folder.mkdir(parents=True)
            (folder / "0").write_bytes(b'\0v1\n{"orders":{"0":0}}')
    return location


def told(location: Path, plan: str, batch: int) -> None:
    """A record of a run of that plan: what Spark reported of one batch."""
    recorded(location)
    segment = next((location.parent / f".holdfast/{location.name}/runs").iterdir()) / "000001.jsonl"
    sources = [
        {
            "description": _description(one), "startOffset": None,
            "endOffset": _offset(one, batch), "numInputRows": 1,
        }
        for one in dict.fromkeys(plan)
    ]  # fmt: skip
    progress = {"event": "progress", "at_ms": 1, "batch": batch, "rows": 1, "sources": sources}
    segment.write_text(segment.read_text() + json.dumps(progress) + "\n")


def shown(found: Sequence[SourceEvidence]) -> list[str]:
    """Folder, files and the first line of the same source, of each line."""
    return [
        " ".join(
            (
                "?" if isinstance(one.folder, Unknown) else one.folder,
                *(path.removeprefix("file:///") for path in one.files),
                *(["=" + one.same_as.name] if one.same_as else []),
            )
        )
        for one in found
    ]


def _unsure(found: Diagnosis) -> list[str]:
    return [
        f"{one.question}: {one.reason}" for one in found.not_assessed if " folder" in one.question
    ]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("aa", ["0 in1/2", "0 in1/2 =0"]),
        ("aab", ["0 in1/2", "0 in1/2 =0", "1"]),
        ("baa", ["0", "1 in1/2", "1 in1/2 =1"]),
        ("aba", ["0 in1/2", "1", "0 in1/2 =0"]),
        ("aak", ["0 in1/2", "0 in1/2 =0", "1"]),
        ("kka", ["0", "0 =0", "1 in1/2"]),
        ("ddaa", ["0", "0 =0", "1 in1/2", "1 in1/2 =2"]),
        ("aad", ["0 in1/2", "0 in1/2 =0", "1"]),
        # `c` is at the same offsets as `a`: with all folders there, they are told apart.
        ("ac", ["0 in1/2", "1 in3/2"]),
        # It is not, where that leaves more than one answer.
        ("aca", ["0 in1/2", "?", "?"]),
        ("dcda", ["0", "1 in3/2", "?", "?"]),
    ],
)
def test_lines_of_one_source_have_its_folder(
    tmp_path: Path, plan: str, expected: list[str]
) -> None:
    location = checkpoint(tmp_path / "c", plan)
    assert shown(evidence(location).sources) == expected
    assert not codes(diagnosed(location)) & _LOST


def test_no_plan_gets_the_folder_or_the_description_of_another_source(tmp_path: Path) -> None:
    """Every plan of three leaves: of sources that are hard to tell apart, and of others."""
    known = 0
    for plan in map("".join, (*itertools.product("acd", repeat=3), *itertools.permutations("abk"))):
        location = checkpoint(tmp_path / plan / "c", plan)
        found = evidence(location).sources
        numbers = [[*dict.fromkeys(plan)].index(one) for one in plan]
        for one, source, number in zip(found, plan, numbers, strict=True):
            kept = source in _FILES or source == "k"
            assert not kept or one.folder in (str(number), offset_lines.NOT_KNOWN), plan
            assert not one.files or one.files == (f"file:///{_FILES[source]}/2",), plan
        told(location, plan, 2)
        named = evidence(location).sources
        assert all(
            one.described in ("", _description(source))
            for one, source in zip(named, plan, strict=True)
        ), plan
        assert not codes(diagnosed(location)) & {*_LOST, Code.OFFSETS_EDITED}, plan
        known += all(one.described for one in named)
    assert known == 27  # all but those in which one of `a` and `c` comes twice, and the other


def test_a_source_that_is_read_twice_is_told_by_what_is_known_of_its_runs(tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "c", "aba")
    equal = "their offsets are equal in every entry that was read"
    assert [one.described for one in evidence(location).sources] == ["", "", ""]
    (unsure,) = _unsure(diagnosed(location))
    assert unsure == (
        "whether source 2 has lost a folder of its own: it is treated as the same source as 0:"
        f" {equal}, and `sources` has no more folders"
    )
    told(location, "aba", 2)
    found = evidence(location)
    assert [one.described for one in found.sources] == [_description(one) for one in "aba"]
    assert _unsure(diagnosed(location)) == []
    why = f"{equal}, and its runs have no more sources"
    text, markdown, html = rendered(found)[1:]
    assert (
        f"\nSource 2  files  FileStreamSource[file:/in1]\n  the same source as 0: {why}\n" in text
    )
    assert f"\nthe same source as 0: {why}\n" in markdown
    assert f"<p>the same source as 0: {why}</p>" in html
    written = document.to_json(found)
    schema = json.loads(
        resources.files("holdfast.report").joinpath("inspect.schema.json").read_text()
    )
    assert not list(problems(written, schema, schema))
    assert "'same_as': {'name': '0', 'inferred': 'their offsets are equal" in str(written)
    # One log offset of `a`, however many places of the plan read it.
    assert [(one.records, one.unit) for one in found.timeline][-1] == (1, "log offsets")


def test_what_a_run_tells_when_it_starts_has_a_description_for_each_leaf(tmp_path: Path) -> None:
    """Two that are equal may be of one source, or of two that read the same folder."""
    location = checkpoint(tmp_path / "c", "aa")
    recorded(location, sources=[_description("a")] * 2)
    found = evidence(location).sources
    assert shown(found) == ["0 in1/2", "0 in1/2 =0"]
    assert [one.described for one in found] == [_description("a")] * 2
    assert len(_unsure(diagnosed(location))) == 1


def test_a_pending_batch_of_a_source_that_is_read_twice_runs_again(tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "c", "aab")
    (location / "commits/2").unlink()
    entry = location / "sources/0/2"
    entry.write_text(entry.read_text().replace("/in1/", f"{tmp_path}/"))
    found = diagnosed(location)
    assert found.restart.rerun
    assert found.restart.error is None
    (gone,) = (one for one in found.findings if one.code is Code.SOURCE_FILES_GONE)
    assert gone.text.endswith(": 1 of its files no longer exists.")
    (location / "sources/0/2").unlink()
    assert codes(diagnosed(location)) & _LOST


def test_a_folder_that_is_lost_is_not_a_source_that_is_read_twice(tmp_path: Path) -> None:
    """Where a run tells of two sources, or the lines differ, or the first folder is gone."""
    location = checkpoint(tmp_path / "c", "ac")
    shutil.rmtree(location / "sources/1")
    assert shown(evidence(location).sources) == ["0 in1/2", "0 in1/2 =0"]
    told(location, "ac", 2)
    assert shown(evidence(location).sources) == ["0 in1/2", "1"]
    assert Code.SOURCE_LOG_BEHIND in codes(diagnosed(location))
    for plan, lost in (("ab", "1"), ("aa", "0"), ("aab", "0"), ("aab", "1")):
        location = checkpoint(tmp_path / f"{plan}{lost}/c", plan)
        shutil.rmtree(location / f"sources/{lost}")
        found = diagnosed(location)
        assert codes(found) & _LOST or found.judgement is Judgement.UNKNOWN, plan


def _other(location: Path) -> str:
    """The condition of the other reading of a checkpoint; every one without state has one."""
    found = diagnosed(location).restart.alternative
    return "" if found is None else found.condition


def test_of_lines_that_are_taken_for_one_source_both_readings_are_predicted(tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "c", "ac")
    assert _other(location) == STATE_LOST
    shutil.rmtree(location / "sources/1")
    restart = diagnosed(location).restart
    assert restart.error is None
    assert restart.alternative is not None
    assert restart.alternative.condition == "source 1 has a folder of its own, which is lost"
    error = restart.alternative.restart.error
    assert error is not None
    assert (error.stage, error.reason) == (Stage.START, "`sources/1/2` is missing")
    told(location, "aa", 2)
    assert _other(location) in ("", STATE_LOST)


def test_a_batch_that_is_asked_for_knows_what_other_entries_tell(tmp_path: Path) -> None:
    """In the first entry all lines are equal."""
    location = checkpoint(tmp_path / "c", "aab")
    detail = ops.inspect_batch(str(location), storage={}, event_log=None, batch=0, after=None)
    assert shown(detail.sources) == ["0 in1/0", "0 in1/0 =0", "1 in2/0"]


def _logged(place: Path, found: Golden) -> str:
    """An event log with every progress that Spark reported of a golden checkpoint."""
    events: list[dict[str, object]] = [{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}]
    for one in found.progress:
        ids = {"id": one["id"], "runId": one["runId"]}
        events += [
            {"Event": f"{LISTENER}QueryStartedEvent", **ids, "timestamp": one["timestamp"]},
            {"Event": f"{LISTENER}QueryProgressEvent", "progress": {"durationMs": {}, **one}},
        ]
    place.write_text("".join(json.dumps(one) + "\n" for one in events))
    return str(place)


def test_version_2_goes_by_the_number_in_the_line_and_not_by_its_place(tmp_path: Path) -> None:
    """Spark wrote `1:` before `0:`, and reports on 0 before 1."""
    written = golden("4.3", "offsets-2")
    log = _logged(tmp_path / "log", written)
    location = tmp_path / "c"
    shutil.copytree(written.checkpoint, location)
    found = evidence(location, event_log=log).sources
    ends = {one.name: (one.folder, one.described.rpartition("/")[2]) for one in found}
    assert list(ends.items()) == [("1", ("1", "other]")), ("0", ("0", "input]"))]
    entry = location / "offsets/2"
    entry.write_text(entry.read_text().replace('1:{"logOffset":2}', '1:{"logOffset":1}'))
    (edited,) = (
        one for one in diagnosed(location, event_log=log).findings
        if one.code is Code.OFFSETS_EDITED
    )  # fmt: skip
    assert edited.text.startswith("Rows of source 1 are read twice, or never: batch 2 ended")
    told = Path(log).read_text()
    moved = 'other]", "startOffset": {"logOffset": 1}, "endOffset": {"logOffset": 2}'
    assert told.count(moved) == 1
    Path(log).write_text(told.replace(moved, moved.replace("2}", "1}")))
    assert Code.OFFSETS_EDITED not in codes(diagnosed(location, event_log=log))


def test_a_report_does_not_tell_which_of_several_names_a_source_has(tmp_path: Path) -> None:
    written = golden("4.3", "offsets-2-named")
    log = _logged(tmp_path / "log", written)
    found = evidence(written.checkpoint, event_log=log).sources
    assert {(one.folder, one.described) for one in found} == {("clicks", ""), ("orders_2", "")}
    assert Code.OFFSETS_EDITED not in codes(diagnosed(written.checkpoint, event_log=log))


def _version_2(location: Path, lines: Sequence[Sequence[str]], folders: Mapping[str, str]) -> Path:
    """A checkpoint of these lines, and of these folders of the sources of `checkpoint`."""
    plan = "".join(folders.values())
    checkpoint(location, plan, batches=len(lines))
    for batch, held in enumerate(lines):
        path = location / f"offsets/{batch}"
        head = path.read_text().split("\n")[1]
        path.write_text("\n".join(["v2", head, *held]))
    for number, name in reversed([*enumerate(folders)]):
        (location / f"sources/{number}").rename(location / f"sources/{name}")
    return location


@pytest.mark.parametrize(
    ("lines", "folders", "expected"),
    [
        # `a` alone, which is read twice: Spark writes the number of the last leaf.
        (['1:{"logOffset":2}'], {"0": "a"}, ["0"]),
        # `0` has no offset yet.
        (['1:{"logOffset":2}'], {"1": "a"}, ["1"]),
        (['0:{"logOffset":2}', '2:{"logOffset":0}'], {"0": "a", "2": "b"}, ["0", "2"]),
        # `aab` and `aba` leave the same files, and other sources under each number.
        (['1:{"logOffset":2}', '2:{"logOffset":0}'], {"0": "a", "1": "b"}, ["?", "?"]),
        (['0:{"logOffset":2}', '2:{"logOffset":0}'], {"0": "a", "1": "b"}, ["0", "?"]),
        (['2:{"logOffset":2}', '1:{"logOffset":0}', "0:7"], {"1": "b", "2": "a"}, ["2", "1", "0"]),
        (['left:{"logOffset":2}', '1:{"logOffset":0}'], {"left": "a", "1": "b"}, ["left", "1"]),
    ],
)
def test_the_folders_of_version_2(
    tmp_path: Path, lines: Sequence[str], folders: Mapping[str, str], expected: Sequence[str]
) -> None:
    location = _version_2(tmp_path / "c", [lines] * 3, folders)
    assert [one.split(" ")[0] for one in shown(evidence(location).sources)] == expected
    found = diagnosed(location, spark=SparkVersion(4, 3))
    assert not codes(found) & _LOST
    assert (found.judgement is Judgement.UNKNOWN) == ("?" in expected)


def test_folders_with_names_belong_to_no_line_that_has_none(tmp_path: Path) -> None:
    """Version 1 of the offset log, with named sources."""
    location = checkpoint(tmp_path / "c", "ab")
    for number, name in enumerate(("left", "right")):
        (location / f"sources/{number}").rename(location / f"sources/{name}")
    assert shown(evidence(location).sources) == ["?", "?"]
    assert not codes(diagnosed(location)) & _LOST
    single = checkpoint(tmp_path / "single/c", "a")
    (single / "sources/0").rename(single / "sources/left")
    assert shown(evidence(single).sources) == ["left in1/2"]


def test_entries_of_version_2_may_name_other_numbers_of_sources(tmp_path: Path) -> None:
    """A source without an offset has no line, and Spark reads by name."""
    zero = [f'0:{{"logOffset":{batch}}}' for batch in range(3)]
    lines = [[zero[0]], [zero[1]], ['1:{"logOffset":0}', zero[2]]]
    location = _version_2(tmp_path / "c", lines, {"0": "a", "1": "b"})
    found = diagnosed(location, spark=SparkVersion(4, 3))
    assert found.restart.error is None
    assert Code.SOURCES_CHANGED not in codes(found)
    (location / "offsets/1").write_text((location / "offsets/1").read_text().replace("v2", "v1"))
    (location / "offsets/2").write_text((location / "offsets/2").read_text().replace("v2", "v1"))
    assert Code.SOURCES_CHANGED in codes(diagnosed(location))
