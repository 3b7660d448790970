"""Reading a Delta table must not end the process badly after it has given the right answer.

pyarrow reads in threads of its own. Through delta-rs' file system, which is Python, such a thread
frees Python's buffers; if the interpreter ends at that moment, the process aborts.
"""

import re
import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
# Whatever opens a file through Python is printed, by the process that then ends.
READ = """
import sys
from pathlib import Path
from deltalake import fs
opened = fs.DeltaStorageHandler.open_input_file
def told(*arguments):
    print("opened through Python")
    return opened(*arguments)
fs.DeltaStorageHandler.open_input_file = told
from holdfast.examples.sensors import reconcile
print(reconcile._read_table(Path(sys.argv[1]), ["id"]).num_rows)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of several files in a folder with an odd name."""
    path = tmp_path / "a table"
    for first in range(0, 4000, 500):
        rows = pa.table({"id": list(range(first, first + 500)), "day": ["2026-01-01"] * 500})
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["day"])
    return path


def _read(table: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(table)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_the_reconciliation_reads_no_file_through_python(table: Path) -> None:
    assert _read(table) == (0, "4000\n")


@pytest.mark.prove
def test_the_reconciliation_ends_well_every_time(table: Path) -> None:
    assert {_read(table) for _ in range(60)} == {(0, "4000\n")}


def test_neither_code_nor_pages_read_a_table_through_python() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    wrong = re.compile(r"to_pyarrow_table|to_pyarrow_dataset\(\)|DeltaTable\([^)]*\)\.to_pandas")
    assert [str(page) for page in pages if wrong.search(page.read_text("utf-8"))] == []
