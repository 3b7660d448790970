"""May these jobs use these checkpoint locations? Every rule with its code."""

import pytest

from holdfast.diagnose import locations
from holdfast.errors import (
    BaseEphemeral,
    BaseMissing,
    HoldfastError,
    JobNameInvalid,
    LocationMoved,
    LocationNested,
    LocationShared,
    SinkBehind,
)
from holdfast.model.batch import LastWritten, NothingWritten, WrittenBatch
from holdfast.model.definition import Continuously, DeclarationSite, Job, OutputMode
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, JobName, OutputName
from holdfast.model.surroundings import LocationFacts

LONGEST = "a" * 128


def job(name: str, line: int = 1) -> Job:
    return Job(
        name=JobName(name),
        function=job,
        reads=(),
        writes=(),
        trigger=Continuously(),
        output_mode=OutputMode.APPEND,
        settings={},
        declared_at=DeclarationSite(file="jobs.py", line=line),
    )


def facts(
    path: str | None = "/data/checkpoints",
    *,
    file_system: str = "ext4",
    temporary: str = "/scratch",
    above: str | None = None,
) -> LocationFacts:
    return LocationFacts(
        url=path or "s3://bucket/checkpoints",
        path=path,
        temporary=temporary,
        file_system=file_system,
        checkpoint_above=above,
    )


@pytest.mark.parametrize("name", ["a", "7", "sensor-raw-ingest", "a.b_c-D", "a..b", LONGEST])
def test_names_that_are_folder_names_everywhere(name: str) -> None:
    assert locations.refuse_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        ".hidden",
        ".holdfast",
        "-a",
        "_a",
        "a.",
        "a/b",
        "/a",
        "a/",
        "a\\b",
        "../a",
        "a b",
        "a\n",
        "a\x00",
        "a%20b",
        "a:b",
        "a=b",
        "a#b",
        "a?b",
        "a*",
        "é",
        "ingést",
        "日本",
        "a٣",
        "🚀",
        LONGEST + "a",
        "a" * 10_000,
    ],
)
def test_names_that_are_not(name: str) -> None:
    found = locations.refuse_name(name)
    assert isinstance(found, JobNameInvalid)
    assert f"`{name[:200]}` is not a valid job name" in found.message
    assert len(found.message) < 500


@pytest.mark.parametrize("base", [None, "", "  "])
def test_no_base(base: str | None) -> None:
    found = locations.refuse_missing_base(base, "sensors")
    assert isinstance(found, BaseMissing)
    assert "pipeline `sensors`" in found.message


def test_a_base() -> None:
    assert locations.refuse_missing_base("/data", "sensors") is None


def test_jobs_beside_one_another() -> None:
    beside = [(job("a"), "/c/a"), (job("ab"), "/c/ab"), (job("a-b"), "/c/a-b")]
    assert locations.refuse_overlap(beside) is None
    assert locations.refuse_overlap([]) is None


@pytest.mark.parametrize(("one", "other"), [("/c/a", "/c/a"), ("/c/Ingest", "/c/ingest")])
def test_two_jobs_on_one_location(one: str, other: str) -> None:
    """Letter case does not tell two folders apart on every disk."""
    found = locations.refuse_overlap([(job("x"), "/c/x"), (job("a", 3), one), (job("b", 9), other)])
    assert isinstance(found, LocationShared)
    assert "`a` (jobs.py:3) and `b` (jobs.py:9)" in found.message
    assert other in found.message


@pytest.mark.parametrize(
    ("one", "other"), [("/c/a", "/c/a/b"), ("/c/a/b", "/c/a"), ("/c/A", "/c/a/b")]
)
def test_a_job_inside_another(one: str, other: str) -> None:
    found = locations.refuse_overlap([(job("a"), one), (job("b"), other)])
    assert isinstance(found, LocationNested)
    assert f"`{one}`" in found.message
    assert f"`{other}`" in found.message


def test_a_base_that_lasts() -> None:
    assert locations.refuse_unsafe_base(facts(), dev=False) is None
    assert locations.refuse_unsafe_base(facts(None, file_system=""), dev=False) is None
    assert locations.refuse_unsafe_base(facts("/tmpfiles/a"), dev=False) is None
    assert locations.refuse_unsafe_base(facts("/scratches"), dev=False) is None


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/tmp", "/tmp"),
        ("/tmp/checkpoints", "/tmp"),
        ("/var/tmp/a", "/var/tmp"),
        ("/dev/shm/a", "/dev/shm"),
        ("/run/user/0/a", "/run"),
        ("/scratch/x", "/scratch"),
        ("/var/folders/zz/T/a", "/var/folders"),
    ],
)
def test_a_base_in_a_temporary_folder(path: str, folder: str) -> None:
    found = locations.refuse_unsafe_base(facts(path), dev=False)
    assert isinstance(found, BaseEphemeral)
    assert f"`{path}`" in found.message
    assert f"`{folder}`" in found.message
    assert locations.refuse_unsafe_base(facts(path), dev=True) is None


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "overlay", "aufs", "rootfs"])
def test_a_base_on_a_file_system_that_ends_with_its_container(kind: str) -> None:
    found = locations.refuse_unsafe_base(facts(file_system=kind), dev=False)
    assert isinstance(found, BaseEphemeral)
    assert f"type `{kind}`" in found.message
    assert locations.refuse_unsafe_base(facts(file_system=kind), dev=True) is None


@pytest.mark.parametrize("dev", [False, True])
def test_a_base_inside_a_checkpoint_is_refused_also_with_dev(*, dev: bool) -> None:
    found = locations.refuse_unsafe_base(facts("/tmp/a/b", above="/tmp/a"), dev=dev)
    assert isinstance(found, LocationNested)
    assert "`/tmp/a/b` is inside the checkpoint `/tmp/a`" in found.message


def test_a_record_of_the_same_location() -> None:
    assert locations.refuse_move(JobName("a"), "/c/a", {}) is None
    assert locations.refuse_move(JobName("a"), "/c/a", {"the table": "/c/a"}) is None


def test_a_record_of_another_location() -> None:
    recorded = {"its own records": "/c/a", "the table `t`": "/b/a"}
    found = locations.refuse_move(JobName("a"), "/c/a", recorded)
    assert isinstance(found, LocationMoved)
    assert "declared checkpoint location of job `a` is `/c/a`" in found.message
    assert "according to the table `t` it is `/b/a`" in found.message
    assert "--accept LOCATION_MOVED" in found.hint


def written(batch: int, *, taken_back: bool = False) -> WrittenBatch:
    return WrittenBatch(
        epoch=Epoch(3),
        batch=BatchId(batch),
        digest=Digest("d"),
        location="/c/a",
        taken_back=taken_back,
    )


NOTHING = NothingWritten(epoch=Epoch(3), location="/c/a")
NO_TABLE = NothingWritten(epoch=Epoch(0), location=Unknown(reason="there is no table yet"))
HOLDS_ALL: dict[str, tuple[LastWritten, int | None]] = {
    "a new table, a new checkpoint": (NO_TABLE, None),
    "drivers were there, no batch was done": (NOTHING, None),
    "the last committed batch": (written(7), 7),
    "one batch more, which the commit log lacks": (written(8), 7),
    "many more: the checkpoint was rewound": (written(99), 7),
    "batch 0, and batch 0 done": (written(0), 0),
    "a batch, and a checkpoint without one": (written(0), None),
    "a sink that cannot be asked": (Unknown(reason="no ledger"), 7),
}
LACKS: dict[str, tuple[LastWritten, int | None, str]] = {
    "no table any more": (NO_TABLE, 7, "no batch of this job, but batches up to 7 "),
    "no batch, and batch 0 done": (NOTHING, 0, "no batch of this job, but batches up to 0"),
    "one batch less": (written(6), 7, "ends at batch 6, but batches up to 7 are committed"),
    "many less": (written(0), 99, "ends at batch 0, but batches up to 99 are committed"),
    "restored": (written(7, taken_back=True), 7, "restored or replaced after batch 7 was written"),
    "restored, and nothing done": (written(7, taken_back=True), None, "replaced after batch 7"),
    "restored, and one more than done": (written(8, taken_back=True), 7, "replaced after batch 8"),
}


def refusal(last: LastWritten, done: int | None) -> SinkBehind | None:
    at = None if done is None else BatchId(done)
    return locations.refuse_sink_behind(JobName("a"), OutputName("t"), last, at)


@pytest.mark.parametrize(("last", "done"), HOLDS_ALL.values(), ids=HOLDS_ALL)
def test_a_sink_that_holds_what_is_done(last: LastWritten, done: int | None) -> None:
    assert refusal(last, done) is None


@pytest.mark.parametrize(("last", "done", "found"), LACKS.values(), ids=LACKS)
def test_a_sink_that_lacks_what_is_done(last: LastWritten, done: int | None, found: str) -> None:
    behind = refusal(last, done)
    assert behind is not None
    assert "output `t` of job `a`" in behind.message
    assert found in behind.message
    assert "--accept SINK_BEHIND" in behind.hint


def test_the_first_refusal_counts() -> None:
    one: HoldfastError = BaseMissing("one", hint="")
    other: HoldfastError = LocationMoved("other", hint="")
    assert locations.find_first(None, one, other) is one
    assert locations.find_first(None, None) is None
