"""Named queries, and a process that runs and checks them under one version of Spark.

    python -m tests.spark.version_steps

A line of JSON in, `{"do": "run", "query": "sums", "folder": "…"}`, and a line of JSON out. `run`
gives the error or the rows, `record` writes a run record, `check` gives the verdict and the codes,
`predict` where a prediction and Spark differ. The process lives as long as its input: one start of
Spark for many steps.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.spark import predicting
from tests.spark.changes import JOIN, PLAIN, SESSION, SUM, UNIQUE, WINDOW
from tests.spark.changing import Query, ran, record
from tests.spark.restarting import ROCKSDB

from holdfast.model.json import Json
from holdfast.run.query import check as checks

_PARTITIONS = "spark.sql.shuffle.partitions"
_OFFSETS_2 = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
_NAMES = {**_OFFSETS_2, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
_STATE = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_UNCHECKED = {"spark.sql.streaming.stateStore.stateSchemaCheck": "false"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Named(Query):
    """A query whose sources have names: `clicks=in0` (Spark 4.2 and later)."""

    def _read(self, session: SparkSession, folder: Path, name: str) -> DataFrame:
        given, _, place = name.partition("=")
        reader = session.readStream.schema(self.schema).option("maxFilesPerTrigger", "1")
        # The Spark that types are checked with has no `name`.
        named = getattr(reader, "name")(given)  # noqa: B009
        read: DataFrame = named.format("json").load(f"{folder}/{place}")
        return read


def _unique(*names: str) -> Query:
    """All five columns as text under other names, without duplicates by all of them."""
    columns = ("k", "k2", "string(v)", "string(w)", "string(t)")
    renamed = [f"{column} as {name}" for column, name in zip(columns, names, strict=True)]
    return Query(build=lambda read: read[0].selectExpr(*renamed).dropDuplicates(list(names)))


def _half(read: Sequence[DataFrame]) -> DataFrame:
    """Sums of two sources, of which nobody gets the first: an optimizer may take it out."""
    none, other = (one.groupBy("k").agg({"w": "sum"}) for one in read)
    return none.where("1 = 0").union(other)


QUERIES: Mapping[str, Query] = {
    "plain": PLAIN,
    "sums": SUM,
    "windows": WINDOW,
    "session": SESSION,
    "unique": UNIQUE,
    "unique k2": replace(UNIQUE, build=lambda r: r[0].dropDuplicates(["k2"]).select("k", "v")),
    "join": JOIN,
    "join, unchecked": replace(JOIN, settings=_UNCHECKED),
    "five, moved": _unique("store", "src", "ver", "phone", "device"),
    "five, as they were": _unique("a", "b", "c", "d", "e"),
    "half": Query(build=_half, reads=("in0", "in1"), mode="update"),
    "sums, offsets 2": replace(SUM, settings={**_OFFSETS_2, _PARTITIONS: "5"}),
    "sums, offsets 2, fewer": replace(SUM, settings={**_OFFSETS_2, _PARTITIONS: "2"}),
    "sums, offsets 2, more": replace(SUM, settings={**_OFFSETS_2, _PARTITIONS: "7"}),
    "clicks": Named(build=PLAIN.build, reads=("clicks=in0",), settings=_NAMES),
    "visits": Named(build=PLAIN.build, reads=("visits=in0",), settings=_NAMES),
    "clicks elsewhere": Named(build=PLAIN.build, reads=("clicks=other",), settings=_NAMES),
    "sums, state 1": replace(SUM, settings={**_STATE, _FORMAT: "1"}),
    "sums, state 2": replace(SUM, settings={**_STATE, _FORMAT: "2"}),
}


def _run(spark: SparkSession, query: Query, folder: Path) -> Json:
    failed, rows = ran(spark, query, folder)
    return {
        "failed": failed,
        "rows": sorted([*map(str, row), times] for row, times in rows.items()),
    }


def _record(spark: SparkSession, query: Query, folder: Path) -> Json:
    shutil.rmtree(folder / ".holdfast", ignore_errors=True)
    record(spark, query, folder)
    return {}


def _check(spark: SparkSession, query: Query, folder: Path) -> Json:
    frame = query.frame(spark, folder)
    said = checks.check(frame, str(folder / "ck"), output_mode=query.mode)
    return {"verdict": said.judgement.value, "codes": [one.code.value for one in said.findings]}


def _predict(spark: SparkSession, asked: Mapping[str, Json]) -> Json:
    changes, new_input = asked["changes"], asked["new_input"]
    assert isinstance(changes, list)
    case = predicting.Case(
        query=str(asked["query"]), changes=tuple(map(str, changes)), new_input=bool(new_input)
    )
    bases = predicting.Bases(spark, Path(str(asked["folder"])))
    return {"differences": list(predicting.compared(bases, case).differences)}


_STEPS: Mapping[str, Callable[[SparkSession, Query, Path], Json]] = {
    "run": _run,
    "record": _record,
    "check": _check,
}


def main() -> None:
    """Answer one line after another."""
    # Spark's JVM may write to the standard output of its own: it gets the other one.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "predict":
            told = _predict(spark, asked)
        else:
            step = _STEPS[asked["do"]]
            told = step(spark, QUERIES[asked["query"]], Path(asked["folder"]))
        print(json.dumps(told), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
