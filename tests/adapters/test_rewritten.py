"""State that was written after its batch was committed: when it is told, and when it is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, late, timed

from holdfast.model.finding import Code, Severity

_ASKED = "whether state was overwritten after its commit"


def _checkpoint(folder: Path, *, batches: int = 3) -> Path:
    location = files.write(folder / "c", planned=batches, committed=batches)
    files.state(location, range(1, batches + 1), partitions=3)
    timed(location)
    return location


def _told(location: Path) -> bool:
    return Code.STATE_REWRITTEN in codes(diagnosed(location))


def _why_not(location: Path) -> str:
    return " ".join(
        one.reason for one in diagnosed(location).not_assessed if one.question == _ASKED
    )


def test_the_file_and_its_delay_are_named(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path)
    assert not _told(location)
    assert not _why_not(location)
    late(location / "state/0/2/3.delta")
    (found,) = (one for one in diagnosed(location).findings if one.code is Code.STATE_REWRITTEN)
    assert found.severity is Severity.UNDEFINED
    assert [(one.file, one.expected, one.found) for one in found.clues] == [
        ("state/0/2", "version 3 before `commits/2`", "60 s after it")
    ]


def _of_the_version_before(location: Path) -> None:
    late(location / "state/0/1/2.delta")


def _in_two_partitions(location: Path) -> None:
    late(location / "state/0/1/3.delta")
    late(location / "state/0/2/3.delta", by_ms=7000)


def _a_changelog(location: Path) -> None:
    for path in location.glob("state/0/*/*.delta"):
        path.rename(path.with_suffix(".changelog"))
    late(location / "state/0/1/3.changelog")


@pytest.mark.parametrize(
    "act", [_of_the_version_before, _in_two_partitions, _a_changelog], ids=lambda one: one.__name__
)
def test_it_is_told(tmp_path: Path, act: Callable[[Path], None]) -> None:
    location = _checkpoint(tmp_path)
    act(location)
    assert _told(location)


def _within_the_slack(location: Path) -> None:
    late(location / "state/0/1/3.delta", by_ms=5400)


def _of_a_batch_that_is_not_committed(location: Path) -> None:
    (location / "commits/2").unlink()
    late(location / "state/0/1/3.delta")


def _below_a_snapshot(location: Path) -> None:
    late(location / "state/0/1/2.delta")
    (location / "state/0/1/2.snapshot").write_bytes(b"x")


def _a_snapshot_itself(location: Path) -> None:
    (location / "state/0/1/2.snapshot").write_bytes(b"x")
    late(location / "state/0/1/2.snapshot")


def _a_name_of_its_own(location: Path) -> None:
    for path in location.glob("state/0/*/*.delta"):
        own = f"{path.stem}_2f1f8a6e-6d0c-4a53-8f9c-2a7c0c5f0a11.changelog"
        path.rename(path.with_name(own))
        late(path.with_name(own))


def _a_clock_that_was_set_back(location: Path) -> None:
    late(location / "commits/2", by_ms=-60_000)


@pytest.mark.parametrize(
    "act",
    [
        _within_the_slack, _of_a_batch_that_is_not_committed, _below_a_snapshot,
        _a_snapshot_itself, _a_name_of_its_own, _a_clock_that_was_set_back,
    ],
    ids=lambda one: one.__name__,
)  # fmt: skip
def test_it_is_not_told(tmp_path: Path, act: Callable[[Path], None]) -> None:
    location = _checkpoint(tmp_path)
    act(location)
    assert not _told(location)


def test_of_a_copy_nothing_is_said(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path)
    for path in location.glob("commits/*"):
        late(path, by_ms=3_600_000)
    for path in location.glob("state/0/*/*"):
        late(path, by_ms=3_700_000)
    assert not _told(location)
    assert "those of a copy" in _why_not(location)


def test_of_a_folder_that_was_put_back_nothing_is_said(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path)
    for path in location.glob("state/0/*/*"):
        late(path)
    assert not _told(location)
    assert "those of a copy" in _why_not(location)


def test_a_single_batch_tells_nothing(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path, batches=1)
    late(location / "state/0/1/1.delta")
    assert not _told(location)
    assert "those of a copy" in _why_not(location)
