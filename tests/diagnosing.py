"""Diagnosing checkpoints from tests, the way the command does; a small one of a file source."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast import ops
from holdfast.model.finding import Code, Diagnosis, Severity
from holdfast.model.json import Json, to_canonical
from holdfast.model.spark_version import SparkVersion
from tests import checkpoint_files as files
from tests.looking import NOW_MS

LANDED_MS = 1_767_225_600_123
_LANDED_NS = LANDED_MS * 1_000_000 + 456_789  # of which Spark logs the milliseconds
V4_1 = SparkVersion(4, 1)


def diagnosed(  # noqa: PLR0913  one parameter an option of the command
    location: Path | str,
    *,
    spark: SparkVersion | None = V4_1,
    asynchronous: bool = False,
    asked: Mapping[str, str] | None = None,
    kafka: str = "",
    storage: Mapping[str, str] | None = None,
    event_log: str | None = None,
    now_ms: int = NOW_MS,
) -> Diagnosis:
    """The diagnosis of one checkpoint."""
    return ops.diagnose(
        str(location),
        storage=storage or {},
        event_log=event_log,
        spark=spark,
        asynchronous=asynchronous,
        asked=asked or {},
        kafka=kafka,
        now_ms=now_ms,
        on_progress=lambda *_: None,
    )


def codes(found: Diagnosis) -> set[Code]:
    """The codes of the findings; where the tests keep their files is no finding of theirs.

    Many checkpoints of one test have the same query id.
    """
    return {
        one.code
        for one in found.findings
        if one.code is not Code.STORAGE_EPHEMERAL
        and not (one.code is Code.CHECKPOINT_COPIED and one.severity is Severity.NOTE)
    }


def reading(
    location: Path, offsets: Sequence[Json], settings: Mapping[str, str] = files.SETTINGS
) -> Path:
    """A checkpoint whose batches end at these offsets of one source, all committed."""
    for name in ("offsets", "commits"):
        (location / name).mkdir(parents=True)
    (location / "metadata").write_text(json.dumps({"id": files.QUERY_ID}))
    for batch, offset in enumerate(offsets):
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": dict(settings)}
        text = f"v1\n{json.dumps(metadata)}\n{to_canonical(offset)}"
        (location / f"offsets/{batch}").write_text(text)
        (location / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return location


def reading_files(location: Path, *, batches: int = 3, listed: int = 3) -> Path:
    """A checkpoint of a file source: so many batches of one file, so many entries in its log."""
    reading(location, [{"logOffset": batch} for batch in range(batches)])
    landing = location.parent / "landing"
    landing.mkdir(exist_ok=True)
    (location / "sources/0").mkdir(parents=True)
    for number in range(listed):
        file = landing / f"{number}.json"
        file.write_text("{}")
        os.utime(file, ns=(_LANDED_NS, _LANDED_NS))
        entry = {"path": f"file://{file}", "timestamp": LANDED_MS, "batchId": number}
        (location / f"sources/0/{number}").write_text(f"v1\n{json.dumps(entry)}")
    return location


def recorded(location: Path, **record: object) -> None:
    """A run record beside a checkpoint, which names its sources or its sinks."""
    run = location.parent / f".holdfast/{location.name}/runs/1767225600000-r1"
    run.mkdir(parents=True, exist_ok=True)
    started = {
        "event": "started", "at_ms": 1_767_225_600_000, "query_id": files.QUERY_ID,
        "run_id": "r1", "name": location.name, "spark_version": "4.1.1",
        "location": str(location), "sink": "ForeachBatchSink", "output_mode": "append",
        "sources": [], "configuration": {}, "job": location.name, **record,
    }  # fmt: skip
    (run / "000001.jsonl").write_text(json.dumps(started) + "\n")


def timed(location: Path, first_ms: int = 1_767_225_600_000) -> None:
    """Give the files of a checkpoint the times at which Spark would have written them."""
    for path in location.glob("*/**/*"):
        number = re.match(r"\d+", path.name)
        if path.is_file() and number:
            folder = path.relative_to(location).parts[0]
            batch = int(number[0]) - (folder == "state")
            after_ms = {"offsets": 10, "state": 400, "commits": 900}[folder]
            _touch(path, first_ms + batch * 1000 + after_ms)


def late(path: Path, by_ms: int = 60_000) -> None:
    """A file that was written over so much later."""
    _touch(path, path.stat().st_mtime_ns // 1_000_000 + by_ms)


def _touch(path: Path, at_ms: int) -> None:
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
