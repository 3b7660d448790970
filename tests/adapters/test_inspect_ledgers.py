"""What the sink remembers is read from the Delta table that run records name."""

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from tests import checkpoint_files as files
from tests.looking import evidence, rendered, stamps

from holdfast.model.batch import LedgerKey
from holdfast.model.evidence import LedgerEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId, Epoch, Generation, JobName, OutputName
from holdfast.model.json import Json
from holdfast.sinks.delta import ledger
from holdfast.sinks.delta.ledger import make_app_id


def checkpoint(folder: Path, **more: Json) -> Path:
    """A checkpoint with a record of one run."""
    location = files.write(folder / "base/c")
    run = folder / "base/.holdfast/c/runs/1767225600000-run"
    run.mkdir(parents=True)
    started = {
        "event": "started",
        "at_ms": 1_767_225_600_000,
        "query_id": files.QUERY_ID,
        "run_id": "run",
        "name": "c",
        **more,
    }
    (run / "000000.jsonl").write_text(json.dumps(started) + "\n")
    return location


def table(folder: Path, key: str, version: int) -> str:
    """A Delta table with one app transaction."""
    properties = CommitProperties(app_transactions=[Transaction(key, version)])
    path = str(folder / "table")
    write_deltalake(path, pa.table({"id": [1]}), commit_properties=properties)
    return path


def test_the_ledger_of_spark_s_own_delta_sink(tmp_path: Path) -> None:
    path = table(tmp_path, files.QUERY_ID, 2)
    location = checkpoint(tmp_path, sink=f"DeltaSink[{path}]")
    before = stamps(tmp_path)
    found = evidence(location)
    assert found.ledgers == (
        LedgerEvidence(table=path, key=files.QUERY_ID, batch=BatchId(2), note="Spark's Delta sink"),
    )
    assert all("last batch 2" in form or "'batch': 2" in form for form in rendered(found))
    after = stamps(tmp_path)
    # The Delta library reads the table its own way: only the times of access may differ there.
    assert {path: stamp[1:] for path, stamp in after.items()} == {
        path: stamp[1:] for path, stamp in before.items()
    }


def test_the_ledger_of_a_table_that_holdfast_writes(tmp_path: Path) -> None:
    key = make_app_id(
        LedgerKey(job=JobName("c"), generation=Generation(1), output=OutputName("lake"))
    )
    path = table(tmp_path, key, ledger.pack(Epoch(3), BatchId(41)))
    writes = [
        {"kind": "DeltaAppend", "name": "lake", "path": path},
        {"kind": "DeltaAppend", "name": "other", "path": path},
        {"kind": "DeltaMerge", "name": "gone", "path": str(tmp_path / "gone")},
        {"kind": "DeltaMerge", "name": "relative", "path": "tables/x"},
        {"kind": "ForeachBatch", "name": "f", "path": ""},
    ]
    found = evidence(checkpoint(tmp_path, job="c", generation=1, writes=writes)).ledgers
    lake, other, gone, relative = found
    assert (lake.batch, lake.key, lake.note) == (41, key, "epoch 3")
    assert isinstance(other.batch, Absent)
    assert isinstance(gone.batch, Absent)
    assert isinstance(relative.batch, Unknown)
    assert not (tmp_path / "gone").exists()


def test_a_table_that_is_damaged_is_not_known(tmp_path: Path) -> None:
    path = table(tmp_path, files.QUERY_ID, 2)
    for entry in Path(path, "_delta_log").glob("*.json"):
        entry.write_text("{")
    (seen,) = evidence(checkpoint(tmp_path, sink=f"DeltaSink[{path}]")).ledgers
    assert isinstance(seen.batch, Unknown)
