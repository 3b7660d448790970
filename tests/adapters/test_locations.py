"""Where checkpoints and records lie: the rules asked of a real disk, and what is recorded there."""

import tempfile
from pathlib import Path

import pytest

from holdfast.diagnose import locations as rules
from holdfast.errors import (
    BaseEphemeral,
    BaseMissing,
    LocationMoved,
    LocationNested,
    LocationShared,
    StorageUnavailable,
)
from holdfast.model.definition import Continuously, DeclarationSite, Job, OutputMode
from holdfast.model.ids import BatchId, Generation, JobName
from holdfast.run.start import locations
from holdfast.run.start.locations import Base, Identity
from holdfast.storage import Store, open_store

JOB = JobName("ingest")
IDENTITY = Identity(location="/data/ü b/ingest", generation=Generation(3))


def job(name: str) -> Job:
    return Job(
        name=JobName(name),
        function=job,
        reads=(),
        writes=(),
        trigger=Continuously(),
        output_mode=OutputMode.APPEND,
        settings={},
        declared_at=DeclarationSite(file="jobs.py", line=1),
    )


def checked(base: str | Path | None, *names: str, dev: bool = True) -> Base:
    jobs = [job(name) for name in names or (JOB,)]
    return locations.open_base(None if base is None else str(base), "p", jobs, {}, dev=dev)


def checkpoint(folder: Path) -> Path:
    """A checkpoint as Spark lays it out."""
    for part in ("offsets", "commits", "sources/0", "state/0/0"):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"8a1f"}')
    (folder / "offsets" / "0").write_text("v1\n{}\n0")
    return folder


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store("memory://" if request.param == "memory" else str(tmp_path))


def test_a_base_is_made_and_named_in_one_way(tmp_path: Path) -> None:
    base = checked(f"{tmp_path}/x/..//a b/ü/")
    assert base.url == f"{tmp_path}/a b/ü"
    assert base.location(JOB) == f"{tmp_path}/a b/ü/ingest"
    base.store.write("ingest/x", b"1")
    assert (tmp_path / "a b" / "ü" / "ingest" / "x").read_bytes() == b"1"


@pytest.mark.parametrize("base", [None, "", " "])
def test_no_base(base: str | None) -> None:
    with pytest.raises(BaseMissing):
        checked(base)


def test_jobs_on_one_location(tmp_path: Path) -> None:
    with pytest.raises(LocationShared):
        checked(tmp_path / "c", "ingest", "Ingest")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("inside", ["", "deeper", "state/0", "offsets", "a/b/c/d"])
def test_a_base_inside_a_checkpoint(tmp_path: Path, inside: str) -> None:
    above = checkpoint(tmp_path / "c" / "ingest")
    with pytest.raises(LocationNested) as caught:
        checked(above / inside)
    assert f"inside the checkpoint `{above}`" in caught.value.message


def test_a_base_inside_a_checkpoint_by_a_link(tmp_path: Path) -> None:
    above = checkpoint(tmp_path / "ingest")
    (tmp_path / "link").symlink_to(above / "state")
    with pytest.raises(LocationNested):
        checked(tmp_path / "link" / "c")


def test_a_base_beside_and_above_checkpoints(tmp_path: Path) -> None:
    checkpoint(tmp_path / "c" / "ingest")
    assert checked(tmp_path / "c").url == str(tmp_path / "c")
    assert checked(tmp_path / "c" / "other").url == str(tmp_path / "c" / "other")


@pytest.mark.parametrize("part", ["offsets", "commits", "metadata"])
def test_a_folder_with_a_part_of_a_checkpoint_is_none(tmp_path: Path, part: str) -> None:
    checkpoint(tmp_path / "c")
    whole = tmp_path / "c" / part
    whole.rename(tmp_path / "gone")
    assert checked(tmp_path / "c" / "below").url == str(tmp_path / "c" / "below")


def test_a_base_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BaseEphemeral, match="temporary directory"):
        checked(tmp_path / "c", dev=False)
    assert not (tmp_path / "c").exists()
    assert checked(tmp_path / "c", dev=True).url == str(tmp_path / "c")


@pytest.mark.parametrize("base", ["/dev/shm/c", "/tmp/c", "/var/tmp/../tmp/c", "/run/c"])
def test_a_base_that_does_not_last(base: str) -> None:
    with pytest.raises(BaseEphemeral):
        checked(base, dev=False)
    assert not Path(base).exists()


def test_a_base_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="file/c"):
        checked(tmp_path / "file" / "c")


def test_what_is_recorded_is_read_back(store: Store) -> None:
    assert locations.read_identity(store, JOB) is None
    locations.record_identity(store, JOB, IDENTITY)
    assert locations.read_identity(store, JOB) == IDENTITY
    assert locations.read_identity(store, JobName("other")) is None
    later = Identity(location="/elsewhere", generation=Generation(4))
    locations.record_identity(store, JOB, later)
    assert locations.read_identity(store, JOB) == later


GARBAGE = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "no JSON": b"{",
    "no object": b"[1]",
    "null": b"null",
    "no location": b'{"generation":1}',
    "no generation": b'{"location":"/c"}',
    "a location that is no text": b'{"location":7,"generation":1}',
    "a generation that is no number": b'{"location":"/c","generation":"1"}',
    "a generation that is not whole": b'{"location":"/c","generation":1.5}',
    "a number without end": b'{"generation":' + b"1" * 5_000 + b"}",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_record(store: Store, data: bytes) -> None:
    store.write(f".holdfast/{JOB}/job.json", data)
    assert locations.read_identity(store, JOB) is None


def test_garbage_that_is_nested_without_end_is_no_record() -> None:
    store = open_store("memory://")
    store.write(f".holdfast/{JOB}/job.json", b"[" * 100_000)
    assert locations.read_identity(store, JOB) is None


COMMITS = {
    "none": ([], None),
    "the first": (["0"], 0),
    "by number, not by name": (["8", "9", "10"], 10),
    "beside what others leave": (["1", ".2.crc", ".3.uuid.tmp", "4.tmp", "notes"], 1),
    "only what others leave": ([".0.crc"], None),
}


@pytest.mark.parametrize(("names", "last"), COMMITS.values(), ids=COMMITS)
def test_the_last_committed_batch(store: Store, names: list[str], last: int | None) -> None:
    store.write("other/commits/99", b"v1\n{}")
    store.write(f"{JOB}/offsets/77", b"v1\n{}")
    for name in names:
        store.write(f"{JOB}/commits/{name}", b"v1\n{}")
    found = locations.find_last_committed(store, JOB)
    assert found == (None if last is None else BatchId(last))


def recorded(base: Base) -> Base:
    """A base where the job has run."""
    here = Identity(location=base.location(JOB), generation=Generation(1))
    locations.record_identity(base.store, JOB, here)
    return base


def test_a_base_made_from_a_date_is_caught(tmp_path: Path) -> None:
    yesterday = recorded(checked(tmp_path / "c-2026-01-01"))
    today = checked(tmp_path / "c-2026-01-02")
    beside = locations.find_records_beside(today, JOB, {})
    assert beside == {f"the records in `{yesterday.url}`": yesterday.location(JOB)}
    found = rules.refuse_move(JOB, today.location(JOB), beside)
    assert isinstance(found, LocationMoved)
    assert yesterday.location(JOB) in found.message


def test_a_base_of_its_own_is_not(tmp_path: Path) -> None:
    base = recorded(checked(tmp_path / "c"))
    recorded(checked(tmp_path))
    assert locations.find_records_beside(base, JOB, {}) == {}


def test_what_lies_beside_the_base_and_is_no_record(tmp_path: Path) -> None:
    base = checked(tmp_path / "c")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder" / "x").mkdir(parents=True)
    garbage = open_store(str(tmp_path / "garbage"))
    garbage.write(f".holdfast/{JOB}/job.json", b"{")
    other = checked(tmp_path / "other")
    locations.record_identity(
        other.store,
        JobName("other"),
        Identity(location=f"{other.url}/other", generation=Generation(1)),
    )
    assert locations.find_records_beside(base, JOB, {}) == {}


def test_a_copy_beside_the_base_is_no_other_place(tmp_path: Path) -> None:
    """A copy speaks of the place that it was copied from."""
    base = recorded(checked(tmp_path / "c"))
    copy = checked(tmp_path / "c-copy")
    kept = Identity(location=base.location(JOB), generation=Generation(1))
    locations.record_identity(copy.store, JOB, kept)
    assert locations.find_records_beside(base, JOB, {}) == {}


def test_a_base_at_the_top_has_nothing_beside_it() -> None:
    store = open_store("memory://")
    for url in ("/c", "s3://bucket"):
        assert locations.find_records_beside(Base(url=url, store=store), JOB, {}) == {}


@pytest.mark.parametrize(
    ("offsets", "commits", "following"),
    [((), (), 0), ((0,), (), 0), ((5, 6), (5, 6), 7), ((5, 6, 7), (5, 6), 7), ((6, 7), (), 7)],
    ids=["new", "first planned", "nothing pending", "one pending", "commits lost"],
)
def test_the_batch_that_spark_runs_next(
    tmp_path: Path, offsets: tuple[int, ...], commits: tuple[int, ...], following: int
) -> None:
    """A gap is accepted before this batch, and before no other one."""
    store = open_store(str(tmp_path), {})
    for log, numbers in (("offsets", offsets), ("commits", commits)):
        for number in numbers:
            store.write(f"j/{log}/{number}", b"v1\n{}")
    assert locations.find_next_batch(store, JobName("j")) == following
