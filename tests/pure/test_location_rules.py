"""May these jobs use these checkpoint locations? Every rule with its code."""

import pytest

from holdfast.diagnose import locations
from holdfast.diagnose.locations import BaseFacts
from holdfast.errors import (
    BaseEphemeral,
    BaseMissing,
    HoldfastError,
    JobNameInvalid,
    LocationMoved,
    LocationNested,
    LocationShared,
)
from holdfast.model.definition import Continuously, Declared, Job, OutputMode
from holdfast.model.ids import JobName

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
        declared=Declared(file="jobs.py", line=line),
    )


def facts(
    path: str | None = "/data/checkpoints",
    *,
    file_system: str = "ext4",
    temporary: str = "/scratch",
    above: str | None = None,
) -> BaseFacts:
    return BaseFacts(
        url=path or "s3://bucket/checkpoints",
        path=path,
        temporary=temporary,
        file_system=file_system,
        checkpoint_above=above,
    )


@pytest.mark.parametrize("name", ["a", "7", "sensor-raw-ingest", "a.b_c-D", "a..b", LONGEST])
def test_names_that_are_folder_names_everywhere(name: str) -> None:
    assert locations.of_name(name) is None


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
    found = locations.of_name(name)
    assert isinstance(found, JobNameInvalid)
    assert f"found `{name[:200]}`" in found.message
    assert len(found.message) < 500


@pytest.mark.parametrize("base", [None, "", "  "])
def test_no_base(base: str | None) -> None:
    found = locations.of_base(base, "sensors")
    assert isinstance(found, BaseMissing)
    assert "pipeline `sensors`" in found.message


def test_a_base() -> None:
    assert locations.of_base("/data", "sensors") is None


def test_jobs_beside_one_another() -> None:
    beside = [(job("a"), "/c/a"), (job("ab"), "/c/ab"), (job("a-b"), "/c/a-b")]
    assert locations.of_jobs(beside) is None
    assert locations.of_jobs([]) is None


@pytest.mark.parametrize(("one", "other"), [("/c/a", "/c/a"), ("/c/Ingest", "/c/ingest")])
def test_two_jobs_on_one_location(one: str, other: str) -> None:
    """Letter case does not tell two folders apart on every disk."""
    found = locations.of_jobs([(job("x"), "/c/x"), (job("a", 3), one), (job("b", 9), other)])
    assert isinstance(found, LocationShared)
    assert "`a` (jobs.py:3) and `b` (jobs.py:9)" in found.message
    assert other in found.message


@pytest.mark.parametrize(
    ("one", "other"), [("/c/a", "/c/a/b"), ("/c/a/b", "/c/a"), ("/c/A", "/c/a/b")]
)
def test_a_job_inside_another(one: str, other: str) -> None:
    found = locations.of_jobs([(job("a"), one), (job("b"), other)])
    assert isinstance(found, LocationNested)
    assert f"`{one}`" in found.message
    assert f"`{other}`" in found.message


def test_a_base_that_lasts() -> None:
    assert locations.of_facts(facts(), dev=False) is None
    assert locations.of_facts(facts(None, file_system=""), dev=False) is None
    assert locations.of_facts(facts("/tmpfiles/a"), dev=False) is None
    assert locations.of_facts(facts("/scratches"), dev=False) is None


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
    found = locations.of_facts(facts(path), dev=False)
    assert isinstance(found, BaseEphemeral)
    assert f"`{path}`" in found.message
    assert f"`{folder}`" in found.message
    assert locations.of_facts(facts(path), dev=True) is None


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "overlay", "aufs", "rootfs"])
def test_a_base_on_a_file_system_that_ends_with_its_container(kind: str) -> None:
    found = locations.of_facts(facts(file_system=kind), dev=False)
    assert isinstance(found, BaseEphemeral)
    assert f"type `{kind}`" in found.message
    assert locations.of_facts(facts(file_system=kind), dev=True) is None


@pytest.mark.parametrize("dev", [False, True])
def test_a_base_inside_a_checkpoint_is_refused_also_with_dev(*, dev: bool) -> None:
    found = locations.of_facts(facts("/tmp/a/b", above="/tmp/a"), dev=dev)
    assert isinstance(found, LocationNested)
    assert "`/tmp/a/b` inside the checkpoint `/tmp/a`" in found.message


def test_a_record_of_the_same_location() -> None:
    assert locations.of_record(JobName("a"), "/c/a", {}) is None
    assert locations.of_record(JobName("a"), "/c/a", {"the table": "/c/a"}) is None


def test_a_record_of_another_location() -> None:
    recorded = {"its own records": "/c/a", "the table `t`": "/b/a"}
    found = locations.of_record(JobName("a"), "/c/a", recorded)
    assert isinstance(found, LocationMoved)
    assert "job `a` at its recorded checkpoint location `/b/a` (by the table `t`)" in found.message
    assert "declared at `/c/a`" in found.message
    assert "--accept LOCATION_MOVED" in found.hint


def test_the_first_refusal_counts() -> None:
    one: HoldfastError = BaseMissing("one", hint="")
    other: HoldfastError = LocationMoved("other", hint="")
    assert locations.first(None, one, other) is one
    assert locations.first(None, None) is None
