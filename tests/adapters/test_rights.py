"""What this user may not read is said, and nothing is made up in its place."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import V4_1, codes, diagnosed
from tests.golden import FOLDER
from tests.json_schema import problems
from tests.looking import evidence, rendered
from tests.rights import as_nobody
from tests.servers import HdfsServer

from holdfast import Pipeline, ops, sinks, sources
from holdfast.diagnose.check import judge
from holdfast.errors import LocationForbidden
from holdfast.gather.inventory import snapshot
from holdfast.gather.locate import resolve
from holdfast.gather.state import readable_batches
from holdfast.model.evidence import BatchStatus, Evidence
from holdfast.model.fact import Absent, Known, Unknown, UnreadableFile
from holdfast.model.finding import Code, Judgement, NotAssessed, QueryChange
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.spark_version import SparkVersion
from holdfast.model.verdict import Level
from holdfast.predict import unread_files
from holdfast.report import __file__ as reports
from holdfast.report import diagnosis, document, verdict
from holdfast.report.terminal import lines
from holdfast.run.start import preflight
from holdfast.storage import open_store

SCHEMA = json.loads((Path(reports).parent / "inspect.schema.json").read_text())
DENIED = "permission denied"
LISTED_ONLY = 0o744
LOCKED = 0o700


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """A checkpoint that real Spark wrote: six batches, one stateful operator, one file source."""
    golden = FOLDER / "4.1.4/aggregate-hdfs/checkpoint"
    return Path(shutil.copytree(golden, tmp_path / "c"))


def seen(location: Path) -> Evidence:
    """The evidence that nobody gets, which every form of the report can show."""
    found = as_nobody(location, lambda: evidence(location))
    assert not list(problems(document.to_json(found), SCHEMA, SCHEMA))
    for shown in rendered(found):
        assert DENIED in shown
        assert "restart fails" not in shown
    return found


def forbidden(path: str) -> UnreadableFile:
    return UnreadableFile(path=path, reason=DENIED, forbidden=True)


@pytest.mark.parametrize("mode", [LOCKED, LISTED_ONLY])
def test_an_offset_log_without_rights_makes_up_no_batch(location: Path, mode: int) -> None:
    (location / "offsets").chmod(mode)
    found = seen(location)
    assert found.batches.last_planned is None
    assert found.batches.last_committed == 5
    assert found.batches.pending == ()
    assert found.batches.unlisted == (forbidden("offsets"),)
    assert found.unreadable == (forbidden("offsets"),)
    assert found.source_offsets == forbidden("offsets")
    assert isinstance(found.spark_version, Unknown)
    assert found.timeline == ()
    assert verdict.judge(found).level is Level.CAREFUL
    assert verdict.judge(found).text == (
        "batch 5 is committed; which batches are planned is unknown: this user may not read"
        " `offsets`"
        " (permission denied)"
    )


@pytest.mark.parametrize("mode", [LOCKED, LISTED_ONLY])
def test_a_commit_log_without_rights_makes_up_no_batch(location: Path, mode: int) -> None:
    (location / "commits").chmod(mode)
    found = seen(location)
    assert found.batches.last_planned == 5
    assert found.batches.last_committed is None
    assert found.batches.pending == ()
    assert found.unreadable == (forbidden("commits"),)
    assert isinstance(found.source_offsets, Known)
    assert {one.standing for one in found.timeline} == {BatchStatus.COMMIT_UNREADABLE}
    assert verdict.judge(found).level is Level.CAREFUL
    assert "whether it is committed is unknown" in verdict.judge(found).text


@pytest.mark.parametrize("path", ["metadata", "offsets/5", "commits/5"])
def test_a_file_without_rights_says_nothing_of_a_restart(location: Path, path: str) -> None:
    (location / path).chmod(0)
    found = seen(location)
    assert found.unreadable == (forbidden(path),)
    assert verdict.judge(found).level is Level.CAREFUL
    assert verdict.judge(found).text == (
        f"idle: batch 5 is committed, nothing is pending; this user may not read `{path}`"
    )


@pytest.mark.parametrize("path", ["state", "state/0"])
def test_state_that_cannot_be_listed_is_not_absent(location: Path, path: str) -> None:
    (location / path).chmod(LOCKED)
    for batch in range(6):
        entry = location / f"offsets/{batch}"
        head, settings, *rest = entry.read_text().splitlines()
        kept = json.loads(settings)
        kept["conf"].pop("spark.sql.streaming.stateStore.providerClass")
        entry.write_text("\n".join((head, json.dumps(kept), *rest)))
    found = seen(location)
    assert found.stateful_operators == forbidden(path)
    assert found.state_store_provider == forbidden(path)
    assert all(isinstance(one.rows, Unknown) for one in found.operators)
    assert [one.operator for one in found.operators] == ([0] if path == "state/0" else [])


def test_a_partition_that_cannot_be_listed_is_counted_as_such(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    (location / "state/0/1").chmod(LOCKED)
    found = seen(location)
    (operator,) = found.operators
    assert (operator.partitions, operator.unlisted) == (1, (forbidden("state/0/1"),))
    assert isinstance(operator.restorable, Unknown)
    assert "1 partition (`state/0/1` cannot be listed)" in rendered(found)[1]


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_what_can_be_restored_is_not_known_without_a_log(location: Path, log: str) -> None:
    (location / log).chmod(LOCKED)
    (operator,) = seen(location).operators
    assert operator.restorable == Unknown(reason=forbidden(log).description)


def test_a_link_to_itself_costs_no_more_than_itself(location: Path) -> None:
    (location / "metadata").unlink()
    (location / "metadata").symlink_to("metadata")
    for place in ("state", "state/0", "state/0/0", "offsets"):
        (location / place / "a").symlink_to("a")
    found = evidence(location)
    loop = "too many levels of symbolic links"
    assert {one.path: one.reason for one in found.unreadable} == dict.fromkeys(
        ("metadata", "state/a", "state/0/a", "state/0/0/a", "offsets/a"), loop
    )
    assert len(found.unreadable) == 5
    assert found.query_id == UnreadableFile(path="metadata", reason=loop)
    assert found.batches.last_planned == 5
    assert isinstance(found.stateful_operators, Known)
    assert found.stateful_operators.value == ("stateStoreSave",)
    rendered(found)


def test_a_state_of_a_link_to_itself_alone_is_unreadable(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "state").mkdir()
    assert isinstance(evidence(location).stateful_operators, Absent)
    (location / "state/a").symlink_to("a")
    fact = evidence(location).stateful_operators
    assert isinstance(fact, UnreadableFile)
    assert fact.path == "state/a"


def test_operators_whose_metadata_is_torn_are_not_known(location: Path) -> None:
    torn = location / "state/0/_metadata/metadata"
    torn.write_bytes(torn.read_bytes()[:9])
    fact = evidence(location).stateful_operators
    assert isinstance(fact, UnreadableFile)
    assert fact.path == "state/0/_metadata/metadata"
    shutil.copytree(location / "state/0", location / "state/1")
    golden = FOLDER / "4.1.4/aggregate-hdfs/checkpoint/state/0/_metadata/metadata"
    shutil.copy(golden, location / "state/1/_metadata/metadata")
    fact = evidence(location).stateful_operators
    assert isinstance(fact, Known)
    assert fact.value == ("operator 0", "stateStoreSave")
    assert fact.read_from == ("state/0", "state/1/_metadata/metadata")
    assert "`state/0/_metadata/metadata` cannot be read" in fact.inferred


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("offsets", LOCKED),
        ("offsets", LISTED_ONLY),
        ("commits", LOCKED),
        ("commits", LISTED_ONLY),
        ("sources", LOCKED),
        ("sources/0", LISTED_ONLY),
        ("state", LOCKED),
        ("state/0", LOCKED),
        ("state/0/0", LISTED_ONLY),
        ("state/0/_metadata", LOCKED),
        ("metadata", 0),
        ("offsets/5", 0),
        ("offsets/4", 0),
        ("commits/5", 0),
        ("sources/0/3", 0),
        ("state/0/_metadata/metadata", 0),
        ("state/0/0/_metadata/schema", 0),
    ],
)
def test_what_may_not_be_read_is_not_assessed(location: Path, path: str, mode: int) -> None:
    (location / path).chmod(mode)
    for spark in (V4_1, SparkVersion(3, 5), SparkVersion(4, 3)):
        found = as_nobody(location, partial(diagnosed, location, spark=spark))
        assert found.judgement is Judgement.UNKNOWN
        assert codes(found) <= codes(diagnosed(location, spark=spark))
        assert found.restart.error is None
        reason = f"this user may not read `{path}` (permission denied)"
        assert found.restart.batch == Unknown(reason=reason)
        assert NotAssessed(question=f"what `{path}` contains", reason=reason) in found.not_assessed
        shown = lines.strip_styles(diagnosis.to_lines(found))
        assert shown.startswith(f"unknown: a restart cannot be predicted: {reason}")
        assert "remove" not in shown


def test_what_may_not_be_read_comes_before_what_is_undefined(location: Path) -> None:
    shutil.copytree(location, location.parent / "copy")
    (location / "offsets/5").chmod(0)
    found = as_nobody(location, lambda: diagnosed(location))
    assert Code.CHECKPOINT_COPIED in codes(found)
    assert found.judgement is Judgement.UNKNOWN
    assert lines.strip_styles(diagnosis.to_lines(found)).startswith(
        "unknown: a restart cannot be predicted: "
    )


def test_an_old_entry_without_rights_stops_no_prediction(location: Path) -> None:
    (location / "offsets/1").chmod(0)
    found = as_nobody(location, lambda: diagnosed(location))
    assert found.restart == diagnosed(location).restart
    assert found.judgement is diagnosed(location).judgement
    assert "what `offsets/1` contains" in {one.question for one in found.not_assessed}


@pytest.mark.parametrize("path", ["offsets", "state", "metadata"])
def test_a_query_is_not_held_against_half_of_a_checkpoint(location: Path, path: str) -> None:
    (location / path).chmod(0)
    half = as_nobody(location, lambda: evidence(location))
    query = Fingerprint(
        spark_version="4.1.1", sources=(), watermarks=(), operators=(), steps=(), columns=(),
        functions={}, sinks=(), output_mode="append", settings={},
    )  # fmt: skip
    found = judge("c", QueryChange(evidence=half, new=query))
    assert (found.judgement, found.first_start, found.findings) == (Judgement.UNKNOWN, False, ())
    assert path in found.not_assessed[0].reason


def test_a_folder_that_no_source_of_the_query_has_hides_nothing(location: Path) -> None:
    (location / "sources/old-copy").mkdir(mode=LOCKED)
    found = as_nobody(location, lambda: evidence(location))
    assert "sources/old-copy" in {one.path for one in found.unreadable}
    assert unread_files.find(found) == ()


def test_a_job_does_not_start_where_its_driver_may_not_read(location: Path) -> None:
    pipeline = Pipeline("p")
    reads, writes = sources.files("/in", format="text"), sinks.delta_append("/out")
    pipeline.job("j", reads=reads, writes=writes)(lambda rows: rows)
    (location / "state/0/1").chmod(LOCKED)
    half = as_nobody(location, lambda: evidence(location))
    with pytest.raises(
        LocationForbidden, match=r"cannot read `state/0/1` in .* `j`: permission denied"
    ):
        preflight.require_safe_checkpoint(pipeline.jobs[0], half, {}, {}, frozenset())


@pytest.mark.parametrize("path", ["offsets", "commits", "state", "state/0", "state/0/1"])
def test_state_is_not_shown_in_part(location: Path, path: str) -> None:
    asked = readable_batches.StateRequest(
        location=str(location), operator=0, batch=None, changes=None
    )

    def look() -> None:
        found = resolve.find_checkpoint(str(location), {})
        readable_batches.require_listed(asked, snapshot.take(found.place.reader, found.top))

    (location / path).chmod(LOCKED)
    with pytest.raises(LocationForbidden, match=f"`{path}`: permission denied"):
        as_nobody(location, look)


def test_one_batch_of_a_log_without_rights_is_forbidden(location: Path) -> None:
    (location / "offsets").chmod(LOCKED)
    asked = partial(
        ops.inspect_batch, str(location), storage={}, event_log=None, batch=5, after=None
    )
    with pytest.raises(LocationForbidden, match="`offsets` cannot be listed: permission"):
        as_nobody(location, asked)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_folders_of_hdfs_without_rights_are_named(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hdfs_native import Client  # an extra

    location = files.write(tmp_path / "c", planned=2, committed=2)
    files.state(location, range(1, 3))
    url = f"{hdfs.url}/rights/c"
    store = open_store(url, {})
    for file in location.glob("**/*"):
        if file.is_file():
            store.write(str(file.relative_to(location)), file.read_bytes())
    assert evidence(url).unreadable == ()
    for path in ("offsets", "commits", "state/0/1", "metadata"):
        Client(hdfs.url).set_permission(f"/rights/c/{path}", 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    found = evidence(url)
    assert set(found.unreadable) == {
        forbidden(path) for path in ("offsets", "commits", "state/0/1", "metadata")
    }
    assert (found.batches.last_planned, found.batches.last_committed) == (None, None)
    assert diagnosed(url).judgement is Judgement.UNKNOWN
