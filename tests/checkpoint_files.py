"""Small checkpoints written by hand, for what real Spark cannot be made to leave behind."""

import json
import os
from pathlib import Path

from holdfast.model.json import to_canonical

QUERY_ID = "6b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d11"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.HDFSBackedStateStoreProvider",
}


def write(
    folder: Path, *, planned: int = 3, committed: int = 3, step_ms: int = 1000, first: int = 0
) -> Path:
    """A checkpoint of one Kafka topic with two partitions; a batch takes ten records of each."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    for batch in range(first, planned):
        offsets(folder, batch, 1_767_225_600_000 + batch * step_ms)
    for batch in range(first, committed):
        (folder / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def offsets(folder: Path, batch: int, at_ms: int, settings: dict[str, str] | None = None) -> None:
    """One entry of the offset log."""
    conf = SETTINGS if settings is None else settings
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": at_ms, "conf": conf}
    end = (batch + 1) * 10
    source = {"orders": {"0": end, "1": end}}
    text = f"v1\n{json.dumps(metadata)}\n{to_canonical(source)}"
    path = folder / f"offsets/{batch}"
    path.write_text(text)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


def epoch(folder: Path, number: int) -> None:
    """One entry of the offset log as continuous mode writes it: no settings and no time."""
    end = (number + 1) * 10
    (folder / f"offsets/{number}").write_text(
        f"v1\n\n{to_canonical({'orders': {'0': end, '1': end}})}"
    )


def state(folder: Path, versions: range, *, partitions: int = 2) -> None:
    """Deltas of an HDFS-backed store for each version."""
    for partition in range(partitions):
        place = folder / f"state/0/{partition}"
        place.mkdir(parents=True, exist_ok=True)
        for version in versions:
            (place / f"{version}.delta").write_bytes(b"x" * 46)
