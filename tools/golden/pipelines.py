"""Declarative pipelines (Spark 4.1 and later): a table that `spark-pipelines` updates twice.

The command runs in its own process and has no API, so the progress is read from the event log that
it writes.

    <storage>/_checkpoints/<catalog>/<schema>/<table>/<flow>/<n>/

is a checkpoint location; a full refresh starts the next n.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.golden.rendering import render
from tools.golden.scenario import ROOT, SCHEMA, json_files_in

NAME = "pipeline"
SINCE = (4, 1)
_SPEC = """\
name: golden
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
_TABLE = """\
from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession


@pipelines.table
def events() -> DataFrame:
    reader = SparkSession.active().readStream.schema("{schema}").option("maxFilesPerTrigger", 1)
    return reader.json("{folder}/input")
"""
_UPDATES = 2


def record(python: Path, version: str) -> None:
    """Run the pipeline, and keep its checkpoint and Spark's reports like any scenario."""
    folder = ROOT / version / NAME
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "transformations").mkdir(parents=True)
    (folder / "events").mkdir()
    (folder / "spark-pipeline.yml").write_text(_SPEC.format(folder=folder), "utf-8")
    table = _TABLE.format(schema=SCHEMA, folder=folder)
    (folder / "transformations" / "events.py").write_text(table, "utf-8")
    for number in range(_UPDATES):
        json_files_in(folder / "input", range(2 * number, 2 * number + 2))
        _update(python, folder)
    (checkpoint,) = (
        path.parent
        for path in (folder / "storage" / "_checkpoints").rglob("metadata")
        if (path.parent / "offsets").is_dir()
    )
    shutil.copytree(checkpoint, folder / "kept" / "checkpoint")
    (folder / "expected.json").write_text(render(_expected(folder, checkpoint, version)), "utf-8")


def _update(python: Path, folder: Path) -> None:
    scratch = ROOT / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    conf = {
        "spark.ui.enabled": "false",
        "spark.local.dir": str(scratch),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # The second update must find the table of the first.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
        "spark.driver.extraJavaOptions": (
            f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch}"
        ),
    }
    # A file, because the command starts a second JVM, which does not get options of the first.
    defaults = folder / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir(exist_ok=True)
    defaults.write_text("".join(f"{key} {value}\n" for key, value in conf.items()), "utf-8")
    command = [str(python.parent / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml"]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "SPARK_CONF_DIR": str(defaults.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_HOME", None)
    subprocess.run(command, cwd=folder, env=environment, check=True)  # noqa: S603


def _expected(folder: Path, checkpoint: Path, version: str) -> Mapping[str, object]:
    runs = [list(_reported(log)) for log in sorted((folder / "events").iterdir()) if log.is_file()]
    reported = [progress for run in runs for progress in run]
    return {
        "scenario": NAME,
        "about": "a declarative pipeline's streaming table, updated twice",
        "spark": version,
        "location": str(checkpoint),
        "query_id": reported[0]["id"],
        "query_name": reported[0]["name"],
        "output_mode": "append",
        "trigger": "AvailableNow",
        "conf": {},
        "committed": sorted({progress["batchId"] for progress in reported}, key=str),
        "runs": [{"run_id": run[0]["runId"], "ended": "stopped", "progress": run} for run in runs],
    }


def _reported(log: Path) -> Iterator[dict[str, object]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["Event"].endswith("StreamingQueryListener$QueryProgressEvent"):
                yield event["progress"]
