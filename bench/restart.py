"""From process start to the first committed batch: `holdfast run` against bare PySpark.

Both sides use the same jars.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.measure import Result, at_most
from holdfast.run.session import jars

BARE = """
import sys
from pyspark.sql import SparkSession
home, jars = sys.argv[1:]
spark = (SparkSession.builder.master("local[*]").config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "FATAL").getOrCreate())
rows = spark.readStream.schema("id LONG, text STRING").json(home + "/landing")
query = (rows.writeStream.format("delta").option("checkpointLocation", home + "/checkpoints/job")
    .trigger(availableNow=True).start(home + "/table"))
query.awaitTermination()
spark.stop()
"""

DECLARED = """
import os
from holdfast import Pipeline, sinks, sources
home = os.environ["BENCH_HOME"]
pipeline = Pipeline("bench", checkpoints=home + "/checkpoints")

@pipeline.job("job", writes=sinks.delta_append(home + "/table"),
    reads=sources.files(home + "/landing", format="json", schema="id LONG, text STRING"))
def job(rows):
    return rows
"""


def measure_restart(home: Path, rounds: int) -> list[Result]:
    """Measure the time from process start to the commit log entry, with an existing checkpoint."""
    (home / "bare.py").write_text(BARE)
    (home / "declared.py").write_text(DECLARED)
    paths = ",".join(str(path) for path in jars.fetch("spark-4.1"))
    samples: dict[str, list[float]] = {"holdfast": [], "bare": []}
    for number in range(-1, rounds):
        for name, seconds in samples.items():
            folder = home / name
            (folder / "landing").mkdir(parents=True, exist_ok=True)
            elapsed = _run_once(name, folder, home, paths, number + 1)
            if number >= 0:  # the first start creates the checkpoint and the table
                seconds.append(elapsed)
    return [at_most("restart to first committed batch", "s", samples, "holdfast", "bare", 1.2)]


def _run_once(name: str, folder: Path, home: Path, paths: str, number: int) -> float:
    (folder / f"landing/{number}.json").write_text(f'{{"id":{number},"text":"row"}}\n' * 1000)
    command = {
        "bare": [sys.executable, str(home / "bare.py"), str(folder), paths],
        "holdfast": [
            *(sys.executable, "-m", "holdfast"),
            *("run", str(home / "declared.py"), "--once", "--dev"),
        ],
    }[name]
    commit = folder / f"checkpoints/job/commits/{number}"
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**os.environ, "BENCH_HOME": str(folder), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not commit.exists() and process.poll() is None:
        time.sleep(0.01)
    elapsed = time.perf_counter() - started
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert commit.exists(), errors
    return elapsed
