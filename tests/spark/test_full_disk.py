"""A disk that is full: no batch half-written, one sentence, and the next start goes on.

The disk is a small tmpfs in a mount namespace of its own, so that no rights are needed; it is
made larger between the two drivers, as an operator would.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import deltalake
import pytest
from tests.spark.driving import ROWS, ROWS_A_BATCH, Stage, land

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove, pytest.mark.timeout(600)]

TWO_DRIVERS = """
set -u
mount -t tmpfs -o size="$1" tmpfs "$2/small" || exit 99
shift 2
"$@" > "$CRASH_HOME/first" 2>&1
echo $? > "$CRASH_HOME/first.code"
cp -R "$CRASH_HOME/small" "$CRASH_HOME/after-first"
mount -o remount,size=64m "$CRASH_HOME/small" || exit 98
"$@" > "$CRASH_HOME/second" 2>&1
echo $? > "$CRASH_HOME/second.code"
cp -R "$CRASH_HOME/small" "$CRASH_HOME/after-second"
"""


@pytest.mark.parametrize("size", ["120k", "140k", "160k"])
def test_a_full_disk(tmp_path: Path, size: str) -> None:
    land(tmp_path)
    (tmp_path / "small").mkdir()
    stage = Stage(home=tmp_path, source="files", sink="append", place=str(tmp_path / "small"))
    module = Path(__file__).with_name("crash_pipeline.py")
    driver = [sys.executable, "-m", "holdfast", "run", str(module), "--once", "--dev"]
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", TWO_DRIVERS, "sh"]
    done = subprocess.run(
        [*namespace, size, str(tmp_path), *driver],
        env=stage.environment(""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "first").read_text()
    assert (tmp_path / "first.code").read_text().strip() not in ("0", "99"), first
    assert "Traceback" not in first
    assert "hint:" in first
    table = tmp_path / "after-first/table"
    ids = Counter(deltalake.DeltaTable(table).to_pyarrow_table().column("id").to_pylist())
    assert ids == Counter(range(len(ids)))
    assert len(ids) % ROWS_A_BATCH == 0
    assert (tmp_path / "second.code").read_text().strip() == "0", (tmp_path / "second").read_text()
    table = tmp_path / "after-second/table"
    ids = Counter(deltalake.DeltaTable(table).to_pyarrow_table().column("id").to_pylist())
    assert ids == Counter(range(ROWS))
