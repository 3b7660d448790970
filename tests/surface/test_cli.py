"""The command line as a user sees it: whole output, exit codes, and errors of one sentence."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from tests import checkpoint_files as files
from tests import commands

from holdfast.run.session import build, jars

PIPELINE = """
from holdfast import Pipeline, sinks, sources

pipeline = Pipeline("orders", checkpoints={base!r})

@pipeline.job(
    "ingest",
    reads=sources.files({landing!r}, format="json", schema="id LONG"),
    writes=sinks.delta_append({table!r}),
)
def ingest(rows):
    return rows
"""


def holdfast(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def declare(folder: Path, base: str | None) -> str:
    """Write a pipeline module; its landing directory and table lie beside it."""
    landing, table = str(folder / "landing"), str(folder / "table")
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "orders.py").write_text(PIPELINE.format(base=base, landing=landing, table=table))
    return "orders.py"


def test_every_command_is_in_the_help(tmp_path: Path) -> None:
    done = holdfast(tmp_path, "--help")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[-8:]] == [
        "run",
        "jobs",
        "inspect",
        "state",
        "diagnose",
        "check",
        "explain",
        "demo",
    ]


@pytest.mark.parametrize("arguments", [(), ("inspect",), ("state",), ("diagnose",)])
def test_the_page_of_commands_shows_what_the_program_says(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = (Path(__file__).parents[2] / "docs/reference/commands.md").read_text("utf-8")
    assert f"```\n{commands.holdfast(*arguments, '-h').stdout}```\n" in page


def test_version(tmp_path: Path) -> None:
    assert holdfast(tmp_path, "--version").stdout == "holdfast 0.1.0\n"


@pytest.mark.parametrize(
    "after", [0.05, *(pytest.param(s, marks=pytest.mark.prove) for s in (0.0, 0.02, 0.1, 0.15))]
)
def test_ctrl_c_while_it_loads_is_quiet(tmp_path: Path, after: float) -> None:
    # The time is counted from where the command begins: what Python loads before, Python tells.
    begun = "import holdfast.__main__ as command; print(flush=True); command.main()"
    with subprocess.Popen(
        [sys.executable, "-c", begun, "diagnose", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    # Python may end by the signal itself; or the command was done, and there is no checkpoint.
    assert process.returncode in (130, -signal.SIGINT, 2)
    assert err.strip() == "" or process.returncode == 2


@pytest.mark.parametrize(("place", "code"), [("c", 0), ("nowhere", 2)])
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, place: str, code: int, closed: str) -> None:
    files.write(tmp_path / "c")
    command = f"exec {sys.executable} -m holdfast inspect {place} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "UNEXPECTED" not in done.stderr


def test_jobs_are_listed_with_what_they_read_and_write(tmp_path: Path) -> None:
    done = holdfast(tmp_path, "jobs", declare(tmp_path, "/data/checkpoints"))
    assert done.stdout == (
        f"ingest  ({tmp_path}/orders.py:6)\n"
        f"  reads       json files in {tmp_path}/landing\n"
        f"  writes      Delta table {tmp_path}/table\n"
        f"  checkpoint  /data/checkpoints/ingest\n"
    )


@pytest.mark.parametrize(
    ("reads", "writes", "listed"),
    [
        (
            'sources.kafka("broker:9092", ["a", "b"])',
            'sinks.delta_merge("/lake/gold", keys=["id", "day"])',
            ("Kafka a, b at broker:9092", "Delta table /lake/gold by id, day"),
        ),
        (
            'sources.delta("/lake/raw")',
            'sinks.postgres_upsert("host=db", "gold", keys=["id"])',
            ("Delta table /lake/raw", "PostgreSQL table public.gold by id"),
        ),
        (
            'sources.delta("/lake/raw")',
            '[sinks.jdbc_append("jdbc:mariadb://db/x", "rows"), sinks.foreach_batch(ingest)]',
            ("Delta table /lake/raw", "JDBC table rows; function ingest, unproven"),
        ),
        (
            'sources.files("/in", format="csv", schema="id INT")',
            'sinks.files("/out", format="parquet")',
            ("csv files in /in", "parquet files in /out"),
        ),
    ],
)
def test_every_source_and_sink_is_listed_in_words(
    tmp_path: Path, reads: str, writes: str, listed: tuple[str, str]
) -> None:
    lines = ("from holdfast import Pipeline, sinks, sources", "def ingest(rows): return rows",
             'pipeline = Pipeline("p", checkpoints="/c")',
             f'pipeline.job("j", reads={reads}, writes={writes})(ingest)')  # fmt: skip
    (tmp_path / "p.py").write_text("\n".join(lines))
    _, *shown, _ = holdfast(tmp_path, "jobs", "p.py").stdout.splitlines()
    assert shown == [f"  reads       {listed[0]}", f"  writes      {listed[1]}"]


@pytest.mark.parametrize("base", ["/data/checkpoints/", "file:///data/checkpoints"])
def test_a_job_is_listed_at_the_checkpoint_that_it_will_have(tmp_path: Path, base: str) -> None:
    done = holdfast(tmp_path, "jobs", declare(tmp_path, base))
    assert done.stdout.endswith("  checkpoint  /data/checkpoints/ingest\n")


def test_jobs_for_programs(tmp_path: Path) -> None:
    done = holdfast(tmp_path, "jobs", "--json", declare(tmp_path, "/data/checkpoints"))
    listed = json.loads(done.stdout)
    assert listed["pipeline"] == "orders"
    assert [job["name"] for job in listed["jobs"]] == ["ingest"]


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code", "said"),
    [
        (("run", "nowhere"), "MODULE_FAILED", 2, "No module named 'nowhere'"),
        (("run", "nowhere.py"), "MODULE_FAILED", 2, "`nowhere.py` is not a Python file"),
        (("run", "broken.py"), "MODULE_FAILED", 2, "ZeroDivisionError in"),
        (("run", "early.py"), "MODULE_FAILED", 2, "early.py:2"),
        (("run", "empty.py"), "PIPELINE_NOT_FOUND", 2, "cannot choose a Pipeline in `empty.py`"),
        (("run", "orders.py:other"), "PIPELINE_NOT_FOUND", 2, "Its pipelines: `pipeline`"),
        (("run", "orders.py", "--job", "x"), "JOB_UNKNOWN", 2, "no job `x`. Its jobs: `ingest`"),
        (("run", "orders.py", "--set", "x"), "OPTION_INVALID", 2, "`x` is not a Spark setting"),
        (("run", "orders.py"), "BASE_EPHEMERAL", 2, "in the temporary directory"),
        (
            ("run", "baseless.py", "--dev"),
            "BASE_MISSING",
            2,
            "pipeline `orders` has no checkpoint base",
        ),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_hint(
    tmp_path: Path, arguments: tuple[str, ...], code: str, exit_code: int, said: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "early.py").write_text("from pyspark.sql import functions\nfunctions.col('x')\n")
    (tmp_path / "empty.py").write_text("\n")
    declare(tmp_path, None)
    (tmp_path / "orders.py").rename(tmp_path / "baseless.py")
    declare(tmp_path, str(tmp_path / "checkpoints"))
    done = holdfast(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (exit_code, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"{code}: ")
    assert said in first
    assert second.startswith("hint: ")


def test_a_base_made_from_a_date_is_caught_at_its_second_start(tmp_path: Path) -> None:
    records = tmp_path / "checkpoints-2026-01-01/.holdfast/ingest"
    records.mkdir(parents=True)
    location = str(tmp_path / "checkpoints-2026-01-01/ingest")
    (records / "job.json").write_text(json.dumps({"location": location, "generation": 1}))
    module = declare(tmp_path, str(tmp_path / "checkpoints-2026-01-02"))
    done = holdfast(tmp_path, "run", module, "--dev")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "LOCATION_MOVED: the declared checkpoint location of job `ingest`"
    )
    assert location in done.stderr


def test_java_that_is_missing_is_named(tmp_path: Path) -> None:
    module = declare(tmp_path, str(tmp_path / "checkpoints"))
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "run", module, "--dev"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert (
        done.stderr.splitlines()[-2]
        == "JAVA_MISSING: Java is missing: Spark needs Java 17 or later"
    )


@pytest.mark.spark
@pytest.mark.slow
def test_under_spark_submit(tmp_path: Path) -> None:
    module = declare(tmp_path, str(tmp_path / "checkpoints"))
    (tmp_path / "landing/a.json").write_text('{"id": 1}\n{"id": 2}\n')
    home = Path(pyspark.__file__).parent
    paths = ",".join(str(path) for path in jars.fetch(f"spark-{build.find_spark_line()}"))
    main = Path(sys.modules["holdfast"].__file__ or "").parent / "__main__.py"
    done = subprocess.run(
        [home / "bin/spark-submit", "--jars", paths, main, "run", module, "--once", "--dev"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    said = [
        line for line in (done.stdout + done.stderr).splitlines() if line.startswith("ingest: ")
    ]
    assert re.fullmatch(r"ingest: batch 0 done, 2 rows read, \d+\.\d s", said[1]), said
    assert said[2:] == ["ingest: done"]
    assert (tmp_path / "checkpoints/ingest/commits/0").exists()
    assert len(list((tmp_path / "table/_delta_log").glob("*.json"))) == 2
