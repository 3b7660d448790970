"""Scenarios with state: every stateful operator, on both providers.

`mapGroupsWithState` and `flatMapGroupsWithState` are for Scala and Java only, and asked of Java;
what Python has of them is `applyInPandasWithState`. A name ends with the provider: `hdfs`,
`rocksdb` (a whole snapshot per version) or `changelog` (RocksDB with changelog checkpointing).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from tools.golden.scenario import (
    CHANGELOG,
    HDFS,
    PROVIDER,
    ROCKSDB,
    Needs,
    Paced,
    Scenario,
    Stage,
    json_files,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView

Query = Callable[[Stage], DataStreamWriter]
PROVIDERS: Mapping[str, Mapping[str, str]] = {
    "hdfs": {PROVIDER: HDFS},
    "rocksdb": {PROVIDER: ROCKSDB, CHANGELOG: "false"},
    "changelog": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
}
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def noop(frame: DataFrame) -> DataStreamWriter:
    """Write a frame to a sink that keeps nothing."""
    return frame.writeStream.format("noop")


def watermarked(stage: Stage, name: str = "input") -> DataFrame:
    """Return the events of an input folder, with a watermark of five minutes."""
    return stage.files(name).withWatermark("t", "5 minutes")


def aggregate(stage: Stage) -> DataStreamWriter:
    """Return sums by window and key."""
    by = watermarked(stage).groupBy(f.window("t", "10 minutes"), "k")
    return noop(by.agg(f.sum("v").alias("total"), f.count("*").alias("n")))


def _aggregate_complete(stage: Stage) -> DataStreamWriter:
    return stage.files().groupBy("k").agg(f.avg("v").alias("mean")).writeStream.format("memory")


def _dedup(stage: Stage) -> DataStreamWriter:
    return noop(stage.files().dropDuplicates(["k"]))


def _dedup_watermark(stage: Stage) -> DataStreamWriter:
    return noop(watermarked(stage).dropDuplicates(["k", "t"]))


def _dedup_within_watermark(stage: Stage) -> DataStreamWriter:
    return noop(watermarked(stage).dropDuplicatesWithinWatermark(["k"]))


def _join_of(kind: str) -> Query:
    def query(stage: Stage) -> DataStreamWriter:
        left = watermarked(stage).alias("l")
        right = watermarked(stage, "other").alias("r")
        near = f.expr("l.k = r.k AND r.t BETWEEN l.t AND l.t + INTERVAL 10 MINUTES")
        return noop(left.join(right, near, kind).select("l.k", "l.v", f.col("r.v").alias("rv")))

    return query


def _two_inputs(stage: Stage) -> None:
    json_files(2, 1, name="input")(stage)
    json_files(2, 1, name="other")(stage)


def _session_window(stage: Stage) -> DataStreamWriter:
    by = watermarked(stage).groupBy(f.session_window("t", "5 minutes"), "k")
    return noop(by.agg(f.count("*").alias("n")))


def _count(
    key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    before = state.get[0] if state.exists else 0
    total = before + sum(len(frame) for frame in frames)
    state.update((total, f"seen {key[0]}"))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def _apply_in_pandas(stage: Stage) -> DataStreamWriter:
    counted = (
        stage.files()
        .groupBy("k")
        .applyInPandasWithState(
            _count, "k STRING, n LONG", "n LONG, note STRING", "update", GroupStateTimeout.NoTimeout
        )
    )
    return noop(counted)


def _groups(method: str, rows: DataFrame) -> DataStreamWriter:
    """Pass a stream through an operator in `java/holdfast/golden/Groups.java`."""
    # pyspark has no other way to call Java classes.
    jvm = cast("JVMView", rows.sparkSession.sparkContext._jvm)  # noqa: SLF001
    grouped = getattr(jvm.holdfast.golden.Groups, method)(rows._jdf)  # noqa: SLF001
    return noop(DataFrame(grouped, rows.sparkSession))


def _map_groups(stage: Stage) -> DataStreamWriter:
    return _groups("map", stage.files())


def _flat_map_groups(stage: Stage) -> DataStreamWriter:
    return _groups("flatMap", watermarked(stage))


def tws_in_pandas(stage: Stage) -> DataStreamWriter:
    """Use several state variables and timers, through pandas."""
    # Imported here, because the module needs Spark 4.
    from tools.golden.processors import PandasCounter

    return noop(
        watermarked(stage)
        .groupBy("k")
        .transformWithStateInPandas(PandasCounter(), "k STRING, n LONG", "Update", "EventTime")
    )


def _tws_ttl(stage: Stage) -> DataStreamWriter:
    from tools.golden.processors import ForgetfulCounter

    by = stage.files().groupBy("k")
    return noop(
        by.transformWithStateInPandas(
            ForgetfulCounter(), "k STRING, n LONG", "Update", "ProcessingTime"
        )
    )


def _tws_rows(stage: Stage) -> DataStreamWriter:
    from tools.golden.processors import RowCounter

    return noop(
        watermarked(stage)
        .groupBy("k")
        .transformWithState(RowCounter(), "k STRING, n LONG", "Update", "EventTime")
    )


def _limit(stage: Stage) -> DataStreamWriter:
    return noop(stage.files().limit(6))


def _chained(stage: Stage) -> DataStreamWriter:
    unique = watermarked(stage).dropDuplicates(["k", "t"])
    short = unique.groupBy(f.window("t", "5 minutes"), "k").agg(f.sum("v").alias("total"))
    return noop(short.groupBy(f.window("window", "10 minutes")).agg(f.max("total").alias("most")))


def _on(providers: tuple[str, ...], scenario: Scenario) -> tuple[Scenario, ...]:
    """Return the scenario once per provider."""
    return tuple(
        replace(
            scenario,
            name=f"{scenario.name}-{provider}",
            about=f"{scenario.about} ({provider})",
            conf={**PROVIDERS[provider], **scenario.conf},
        )
        for provider in providers
    )


_ALL = ("hdfs", "rocksdb", "changelog")
_BOTH = ("hdfs", "changelog")
_INNER = Scenario(
    name="join-inner",
    about="stream-stream join, inner, state format 2",
    query=_join_of("inner"),
    feed=_two_inputs,
)


def _inner(form: int, since: tuple[int, int]) -> Scenario:
    return replace(
        _INNER,
        name=f"join-inner-format-{form}",
        about=f"stream-stream join, inner, state format {form}",
        conf={JOIN_FORMAT: str(form)},
        since=since,
    )


_AGGREGATE = Scenario(
    name="aggregate", about="windowed sums with a watermark", query=aggregate, mode="update"
)

SCENARIOS = (
    *_on(_ALL, _AGGREGATE),
    *_on(
        _BOTH,
        replace(
            _AGGREGATE, name="aggregate-append", about="windowed sums, each once", mode="append"
        ),
    ),
    *_on(
        ("hdfs",),
        replace(
            _AGGREGATE,
            name="aggregate-format-1",
            about="windowed sums, state format 1",
            conf={"spark.sql.streaming.aggregation.stateFormatVersion": "1"},
        ),
    ),
    *_on(
        ("hdfs",),
        replace(
            _AGGREGATE,
            name="aggregate-zstd",
            about="windowed sums, state compressed with zstd",
            conf={"spark.sql.streaming.stateStore.compression.codec": "zstd"},
        ),
    ),
    *_on(
        _BOTH,
        Scenario(
            name="aggregate-complete",
            about="averages to the memory sink",
            query=_aggregate_complete,
            mode="complete",
        ),
    ),
    *_on(_BOTH, Scenario(name="dedup", about="dropDuplicates without a watermark", query=_dedup)),
    *_on(
        _BOTH,
        Scenario(
            name="dedup-watermark", about="dropDuplicates with a watermark", query=_dedup_watermark
        ),
    ),
    *_on(
        _BOTH,
        Scenario(
            name="dedup-within-watermark",
            about="dropDuplicatesWithinWatermark",
            query=_dedup_within_watermark,
        ),
    ),
    *_on(_BOTH, _INNER),
    # Spark 4.1 and later no longer plan it: they fail with a `MatchError` on the format's number.
    *_on(("hdfs",), replace(_inner(1, since=(3, 5)), until=(4, 0))),
    *_on(("changelog",), _inner(3, since=(4, 1))),
    *_on(("changelog",), _inner(4, since=(4, 2))),
    *_on(
        _BOTH,
        Scenario(
            name="join-left-outer",
            about="stream-stream join, left outer",
            query=_join_of("left_outer"),
            feed=_two_inputs,
        ),
    ),
    *_on(_BOTH, Scenario(name="session-window", about="counts by session", query=_session_window)),
    *_on(
        _BOTH,
        Scenario(
            name="apply-in-pandas",
            about="applyInPandasWithState",
            query=_apply_in_pandas,
            mode="update",
        ),
    ),
    *_on(
        _BOTH,
        Scenario(
            name="map-groups",
            about="mapGroupsWithState",
            query=_map_groups,
            mode="update",
            needs=Needs.JAVA,
        ),
    ),
    *_on(
        _BOTH,
        Scenario(
            name="flat-map-groups",
            about="flatMapGroupsWithState with a time-out",
            query=_flat_map_groups,
            mode="update",
            needs=Needs.JAVA,
        ),
    ),
    *_on(
        ("rocksdb", "changelog"),
        Scenario(
            name="tws-in-pandas",
            about="transformWithStateInPandas with timers",
            query=tws_in_pandas,
            feed=json_files(1, 1),
            mode="update",
            since=(4, 0),
        ),
    ),
    *_on(
        ("changelog",),
        Scenario(
            name="tws-ttl",
            about="transformWithStateInPandas, state variables with a time to live",
            query=_tws_ttl,
            feed=json_files(1, 1),
            mode="update",
            # In this mode a query never stops by itself.
            pace=Paced(),
            since=(4, 0),
        ),
    ),
    *_on(
        ("changelog",),
        Scenario(
            name="tws-rows",
            about="transformWithState, rows, with timers",
            query=_tws_rows,
            mode="update",
            since=(4, 1),
        ),
    ),
    *_on(_BOTH, Scenario(name="limit", about="a limit over the whole stream", query=_limit)),
    *_on(
        _BOTH,
        Scenario(
            name="chained",
            about="deduplication, then an aggregate, then another",
            query=_chained,
        ),
    ),
)
