"""Waiting for the record of a run: a thread of its own writes it, after the query has ended."""

import time
from pathlib import Path

_SECONDS = 30


def runs(location: Path) -> set[Path]:
    """The folders of all runs that were recorded beside a checkpoint."""
    return set((location.parent / f".holdfast/{location.name}/runs").glob("*"))


def recorded_to_the_end(location: Path, *, but: set[Path]) -> None:
    """Return when a run that was not there before is recorded to its end."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        segments = [one for run in runs(location) - but for one in run.glob("*.jsonl")]
        if any('"terminated"' in one.read_text() for one in segments):
            return
        time.sleep(0.1)
    raise AssertionError(location)
