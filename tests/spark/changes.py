"""Every change of Spark's compatibility rules that can be tried, each with the verdict it must get.

Tried here are: number, kind, order, place and options of sources, of files, Kafka and Delta;
filters, projections and functions with and without state; keys, aggregates, windows, sessions and
time zones; operators added, removed, replaced, exchanged, and with their names gone;
deduplication; watermarks; joins; state of one's own and of processors; sinks; settings, pinned or
not; and several of these at once.

Another version of Spark is for `test_check_versions`. Damaged or edited logs are for `holdfast
diagnose`, whose own tests try them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.state import GroupState
from tests.spark.changing import SCHEMA, Build, Case, Query
from tests.spark.processing import processing
from tests.spark.restarting import ROCKSDB

from holdfast.model.finding import Code, Judgement

SAFE, UNSAFE, UNDEFINED = Judgement.SAFE, Judgement.UNSAFE, Judgement.UNDEFINED
Read = Sequence[DataFrame]


def _sql(*steps: str) -> Build:
    """Steps as SQL: `where …`, `select …`, `group … : …`, `unique …`, `time … delay`."""

    def build(read: Read) -> DataFrame:
        frame = read[0]
        for step in steps:
            verb, _, rest = step.partition(" ")
            frame = _stepped(frame, verb, rest)
        return frame

    return build


def _stepped(frame: DataFrame, verb: str, rest: str) -> DataFrame:
    match verb:
        case "where":
            return frame.where(rest)
        case "select":
            return frame.selectExpr(*rest.split("; "))
        case "time":
            column, _, delay = rest.partition(" ")
            return frame.withWatermark(column, delay)
        case "unique":
            return frame.dropDuplicates(rest.split(", "))
        case "group":
            keys, _, made = rest.partition(" : ")
            grouped = frame.groupBy(*(sql.expr(one) for one in keys.split("; ")))
            return grouped.agg(*(sql.expr(one) for one in made.split("; ")))
        case _:
            raise AssertionError(verb)


def _union(read: Read) -> DataFrame:
    return read[0].select("k", "v").union(read[1].select("k", "v"))


def _join(
    on: str,
    *,
    how: str = "inner",
    columns: str = "a.k; b.v",
    within: str = "1 hour",
    delay: str = "10 minutes",
) -> Build:
    def build(read: Read) -> DataFrame:
        left = read[0].withWatermark("t", delay).alias("a")
        right = read[1].withWatermark("t", delay).alias("b")
        near = f"a.t >= b.t - interval {within} and a.t <= b.t + interval {within}"
        return left.join(right, sql.expr(f"{on} and {near}"), how).selectExpr(*columns.split("; "))

    return build


def _doubled(times: int) -> Build:
    def build(read: Read) -> DataFrame:
        if times == 2:
            scaled = sql.udf(lambda v: v * 2, "long")
        else:
            scaled = sql.udf(lambda v: v * 3 + 1, "long")
        return read[0].select("k", scaled("v").alias("v"))

    return build


def _scaled(times: int) -> Build:
    """A function before an aggregate."""

    def build(read: Read) -> DataFrame:
        return _doubled(times)(read).groupBy("k").agg(sql.sum("v").alias("s"))

    return build


def _counting(state: str, timeout: str = "NoTimeout", plus: int = 0) -> Build:
    fractional = "double" in state

    def build(read: Read) -> DataFrame:
        def count(
            key: tuple[object, ...], parts: Iterable[pd.DataFrame], kept: GroupState
        ) -> Iterator[pd.DataFrame]:
            before = kept.get[0] if kept.exists else 0
            now = int(before) + sum(len(part) for part in parts) + plus
            kept.update((float(now),) if fractional else (now,))
            yield pd.DataFrame({"k": [key[0]], "n": [now]})

        timed = read[0].withWatermark("t", "10 minutes")
        return timed.groupBy("k").applyInPandasWithState(
            count, "k string, n long", state, "update", timeout
        )

    return build


PLAIN = Query(build=_sql("select k; v"))
BOTH = Query(build=_union, reads=("in0", "in1"))
TABLE = replace(PLAIN, reads=("delta0",))
TABLES = replace(BOTH, reads=("delta0", "delta1"))
TOPIC = replace(PLAIN, reads=("kafka0",))
TOPICS = replace(BOTH, reads=("kafka0", "kafka1"))
FILES = replace(PLAIN, sink="parquet out0")
STREAM = Query(build=_sql("select to_json(struct(k, v)) value"), sink="kafka out0")
SUM = Query(build=_sql("group k : sum(v) s"), mode="update")
TWO = Query(build=_sql("group k : sum(v) s; sum(w) r"), mode="update")
PAIR = Query(build=_sql("group k; k2 : sum(v) s"), mode="update")
WINDOW = Query(build=_sql("time t 10 minutes", "group window(t, '10 minutes'); k : count(1) n"))
SLIDING = (
    "select k; t + interval {} minutes s",
    "time s 10 minutes",
    "group window(s, '10 minutes', '5 minutes'); k : count(1) n",
)
SESSION = Query(
    build=_sql("time t 10 minutes", "group session_window(t, '10 minutes'); k : count(1) n")
)
LONG = "group case {} else {{}} end g : sum(v) s".format(
    " ".join(f"when v = {1_000 + number} then '{number}'" for number in range(100))
)
DAY = Query(build=_sql("group to_date(t) : count(1) n"), mode="update")
UNIQUE = Query(build=_sql("unique k", "select k; v"))
TIMED = Query(build=_sql("time t 10 minutes", "unique k, t", "select k; v"))
SHIFTED = Query(build=_sql(
    "select k; v; t; t + interval 3 hours u", "time t 10 minutes", "unique k, t", "select k; v"
))  # fmt: skip
CHAIN = Query(build=_sql("time t 3 hours", "unique k, t", "unique k2, t", "select k; k2; v"))
JOIN = Query(build=_join("a.k = b.k"), reads=("in0", "in1"))
KEPT = Query(build=_join("a.k = b.k", delay="3 hours"), reads=("in0", "in1"))
OWN = Query(build=_counting("n long"), mode="update")
PROCESSOR = Query(
    build=processing("value n: c long"),
    mode="update",
    settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)


def _case(name: str, old: Query, new: Query | Build, verdict: Judgement, *codes: Code) -> Case:
    query = new if isinstance(new, Query) else replace(old, build=new)
    return Case(name=name, old=old, new=query, verdict=verdict, codes=frozenset(codes))


CASES = (
    _case("nothing changed, stateless", PLAIN, PLAIN, SAFE),
    _case("nothing changed, aggregate", SUM, SUM, SAFE),
    _case("nothing changed, join", JOIN, JOIN, SAFE),
    # Sources
    _case("source added", PLAIN, BOTH, UNSAFE, Code.SOURCE_COUNT_CHANGED),
    _case("source removed", BOTH, PLAIN, UNSAFE, Code.SOURCE_COUNT_CHANGED),
    _case(
        "source of another kind",
        PLAIN,
        replace(PLAIN, reads=("rate",)),
        UNSAFE,
        Code.SOURCE_KIND_CHANGED,
    ),
    _case(
        "sources swapped",
        BOTH,
        replace(BOTH, reads=("in1", "in0")),
        UNSAFE,
        Code.SOURCES_SWAPPED,
    ),
    _case(
        "another path",
        PLAIN,
        replace(PLAIN, reads=("other",)),
        UNSAFE,
        Code.SOURCE_TARGET_CHANGED,
    ),
    _case(
        "another rate",
        PLAIN,
        replace(PLAIN, options={"maxFilesPerTrigger": "5"}),
        SAFE,
        Code.SOURCE_OPTION_CHANGED,
    ),
    _case(
        "another format option",
        PLAIN,
        replace(PLAIN, options={"multiLine": "true"}),
        UNDEFINED,
        Code.SOURCE_OPTION_CHANGED,
    ),
    _case(
        "a column that nobody uses",
        SUM,
        replace(SUM, schema=f"{SCHEMA}, z string"),
        SAFE,
        Code.SOURCE_SCHEMA_CHANGED,
    ),
    # Tables and topics
    _case("nothing changed, Delta", TABLE, TABLE, SAFE),
    _case("another table", TABLE, replace(TABLE, reads=("delta1",)), UNSAFE,
          Code.SOURCE_TARGET_CHANGED),
    _case("tables swapped", TABLES, replace(TABLES, reads=("delta1", "delta0")), UNSAFE,
          Code.SOURCES_SWAPPED),
    _case("another beginning of a table", TABLE, replace(
        TABLE, options={"startingVersion": "0"}), SAFE, Code.SOURCE_OPTION_CHANGED),
    _case("changed files of a table", TABLE, replace(
        TABLE, options={"skipChangeCommits": "true"}), UNDEFINED, Code.SOURCE_OPTION_CHANGED),
    _case("table to files", TABLE, PLAIN, UNSAFE, Code.SOURCE_KIND_CHANGED),
    _case("nothing changed, Kafka", TOPIC, TOPIC, SAFE),
    _case("limit of a topic", TOPIC, replace(
        TOPIC, options={"maxOffsetsPerTrigger": "1"}), SAFE, Code.SOURCE_OPTION_CHANGED),
    _case("another beginning of a topic", TOPIC, replace(
        TOPIC, options={"startingOffsets": "latest"}), SAFE, Code.SOURCE_OPTION_CHANGED),
    _case("another topic", TOPIC, replace(TOPIC, reads=("kafka1",)), UNSAFE,
          Code.SOURCE_TARGET_CHANGED),
    _case("another topic, loss allowed", TOPIC, replace(
        TOPIC, reads=("kafka1",), options={"failOnDataLoss": "false"}), UNSAFE,
        Code.SOURCE_TARGET_CHANGED),
    _case("a topic less", replace(TOPIC, reads=("kafka0,kafka1",)), replace(
        TOPIC, reads=("kafka0",)), UNSAFE, Code.SOURCE_TARGET_CHANGED),
    _case("a topic more", TOPIC, replace(TOPIC, reads=("kafka0,kafka1",)), UNDEFINED,
          Code.SOURCE_TARGET_CHANGED),
    _case("topics swapped", TOPICS, replace(TOPICS, reads=("kafka1", "kafka0")), UNSAFE,
          Code.SOURCES_SWAPPED),
    _case("topics swapped, loss allowed", TOPICS, replace(
        TOPICS, reads=("kafka1", "kafka0"), options={"failOnDataLoss": "false"}), UNSAFE,
        Code.SOURCES_SWAPPED),
    _case("topic to files", TOPIC, PLAIN, UNSAFE, Code.SOURCE_KIND_CHANGED),
    # Sinks
    _case("nothing changed, files", FILES, FILES, SAFE),
    _case("another folder", FILES, replace(FILES, sink="parquet out1"), UNSAFE,
          Code.SINK_CHANGED),
    _case("files of another format", FILES, replace(FILES, sink="json out1"), UNSAFE,
          Code.SINK_CHANGED),
    _case("nothing changed, to a topic", STREAM, STREAM, SAFE),
    _case("to another topic", STREAM, replace(STREAM, sink="kafka out1"), SAFE,
          Code.SINK_CHANGED),
    _case("topic to a folder", STREAM, replace(STREAM, sink="parquet out0"), UNSAFE,
          Code.SINK_CHANGED),
    # Without state
    _case("filter", PLAIN, _sql("where v > 1", "select k; v"), SAFE, Code.RESULT_CHANGED),
    _case("projection", PLAIN, _sql("select k; v * 2 v"), SAFE, Code.RESULT_CHANGED),
    _case("column added", PLAIN, _sql("select k; v; w"), SAFE, Code.RESULT_CHANGED),
    _case(
        "function, stateless",
        Query(build=_doubled(2)),
        Query(build=_doubled(3)),
        SAFE,
        Code.FUNCTION_CHANGED,
    ),
    _case(
        "watermark without state",
        PLAIN,
        _sql("time t 1 hour", "select k; v"),
        SAFE,
        Code.WATERMARK_CHANGED,
    ),
    # Aggregates
    _case(
        "sum of another column", SUM, _sql("group k : sum(w) s"), UNSAFE, Code.AGGREGATES_CHANGED
    ),
    _case("sum to max", SUM, _sql("group k : max(v) s"), UNSAFE, Code.AGGREGATES_CHANGED),
    _case(
        "aggregates exchanged",
        TWO,
        _sql("group k : sum(w) r; sum(v) s"),
        UNSAFE,
        Code.AGGREGATES_CHANGED,
    ),
    _case("columns of the result exchanged", TWO, _sql(
        "group k : sum(v) s; sum(w) r", "select r; s; k"), UNSAFE, Code.AGGREGATES_CHANGED),
    _case("columns of the result moved", TWO, _sql(
        "group k : sum(v) s; sum(w) r", "select s; k; r"), SAFE, Code.RESULT_CHANGED),
    _case("column of the result dropped", TWO, _sql(
        "group k : sum(v) s; sum(w) r", "select k; s"), UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("filter on a key after an aggregate removed", Query(
        build=_sql("group k : sum(v) s", "where k > 'a'"), mode="update"),
        _sql("group k : sum(v) s"), UNDEFINED, Code.INPUT_CHANGED),
    _case("aggregate added", SUM, TWO, UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("aggregate removed", TWO, SUM, UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case(
        "aggregate of another type",
        SUM,
        _sql("group k : sum(cast(v as double)) s"),
        UNSAFE,
        Code.STATE_SCHEMA_CHANGED,
    ),
    _case("another key", SUM, _sql("group k2 : sum(v) s"), UNSAFE, Code.KEYS_CHANGED),
    _case(
        "another key by an alias",
        SUM,
        _sql("select k2 k; v", "group k : sum(v) s"),
        UNSAFE,
        Code.KEYS_CHANGED,
    ),
    _case("another field of a struct as the key", Query(
        build=_sql("select struct(k a, k2 b) r; v", "group r.a : sum(v) s"), mode="update"),
        _sql("select struct(k a, k2 b) r; v", "group r.b as a : sum(v) s"), UNSAFE,
        Code.KEYS_CHANGED),
    _case("keys exchanged", PAIR, _sql("group k2; k : sum(v) s"), UNSAFE, Code.KEYS_CHANGED),
    _case("key added", SUM, PAIR, UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("key removed", PAIR, SUM, UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case(
        "key of another type",
        SUM,
        _sql("group length(k) : sum(v) s"),
        UNSAFE,
        Code.STATE_SCHEMA_CHANGED,
    ),
    _case("key renamed", SUM, _sql("group k as name : sum(v) s"), SAFE, Code.RESULT_CHANGED),
    _case("aggregate renamed", SUM, _sql("group k : sum(v) total"), SAFE, Code.RESULT_CHANGED),
    _case(
        "a projection that changes nothing",
        SUM,
        _sql("select k; v; w + 1 u", "group k : sum(v) s"),
        SAFE,
    ),
    _case(
        "an argument computed otherwise",
        SUM,
        _sql("select k; v * 2 v", "group k : sum(v) s"),
        UNSAFE,
        Code.AGGREGATES_CHANGED,
    ),
    _case(
        "filter before an aggregate",
        SUM,
        _sql("where v > 1", "group k : sum(v) s"),
        UNDEFINED,
        Code.INPUT_CHANGED,
    ),
    _case(
        "filter after an aggregate",
        SUM,
        _sql("group k : sum(v) s", "where s > 2"),
        SAFE,
        Code.RESULT_CHANGED,
    ),
    _case("function before an aggregate", replace(SUM, build=_scaled(2)), _scaled(3), UNDEFINED,
          Code.FUNCTION_CHANGED),
    _case("field of a key renamed", replace(SUM, build=_sql("group struct(k a) r : sum(v) s")),
          _sql("group struct(k b) r : sum(v) s"), SAFE, Code.RESULT_CHANGED),
    _case("aggregate of another type, and nobody to notice", SUM, replace(
        SUM, build=_sql("group k : sum(cast(v as double)) s"), settings={
            "spark.sql.streaming.stateStore.stateSchemaCheck": "false",
            "spark.sql.streaming.stateStore.formatValidation.enabled": "false",
        }), UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("the checkpoint of another query", SUM, Query(
        build=_sql("group k2 : max(w) m"), reads=("other",), mode="update"), UNSAFE,
        Code.SOURCE_TARGET_CHANGED, Code.KEYS_CHANGED, Code.AGGREGATES_CHANGED),
    _case(
        "output mode", SUM, replace(SUM, mode="complete"), UNDEFINED, Code.OUTPUT_MODE_CHANGED
    ),
    _case("length of a window", WINDOW, _sql(
        "time t 10 minutes", "group window(t, '5 minutes'); k : count(1) n"),
        UNSAFE, Code.KEYS_CHANGED),
    _case("slide of a window", WINDOW, _sql(
        "time t 10 minutes", "group window(t, '10 minutes', '5 minutes'); k : count(1) n"),
        UNSAFE, Code.KEYS_CHANGED),
    _case("what a sliding window is made of",
        Query(build=_sql(SLIDING[0].format(1), *SLIDING[1:])),
        _sql(SLIDING[0].format(7), *SLIDING[1:]),
        UNSAFE, Code.KEYS_CHANGED),
    _case("end of a long key", Query(build=_sql(LONG.format("k")), mode="update"),
        _sql(LONG.format("k2")), UNSAFE, Code.KEYS_CHANGED),
    _case("gap of a session", SESSION, _sql(
        "time t 10 minutes", "group session_window(t, '25 minutes'); k : count(1) n"),
        UNSAFE, Code.KEYS_CHANGED),
    _case(
        "time zone of a day",
        DAY,
        replace(DAY, settings={"spark.sql.session.timeZone": "Asia/Tokyo"}),
        UNDEFINED,
        Code.SETTING_CHANGED,
    ),
    _case(
        "shuffle partitions",
        SUM,
        replace(SUM, settings={"spark.sql.shuffle.partitions": "3"}),
        SAFE,
        Code.SETTING_PINNED,
    ),
    _case(
        "state store provider",
        SUM,
        replace(SUM, settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB}),
        SAFE,
        Code.PROVIDER_PINNED,
    ),
    # Operators
    _case("aggregate to deduplication", SUM, replace(
        SUM, build=_sql("unique k", "select k; v")), UNSAFE, Code.OPERATORS_CHANGED),
    replace(_case("aggregate to deduplication, names gone", SUM, replace(
        SUM, build=_sql("unique k2", "select k; v")), UNSAFE, Code.OPERATORS_CHANGED),
        removed="state/0/_metadata"),
    _case("stateful operator removed", UNIQUE, PLAIN, UNSAFE, Code.OPERATORS_CHANGED),
    _case("stateful operator added", PLAIN, UNIQUE, UNSAFE, Code.OPERATORS_CHANGED),
    _case("operators exchanged", CHAIN, _sql(
        "time t 3 hours", "unique k2, t", "unique k, t", "select k; k2; v"),
        UNSAFE, Code.OPERATORS_SWAPPED),
    # Deduplication and watermarks
    _case("another column", UNIQUE, _sql("unique k2", "select k; v"), UNSAFE, Code.KEYS_CHANGED),
    _case("one column more", UNIQUE, _sql("unique k, k2", "select k; v"), UNSAFE,
          Code.STATE_SCHEMA_CHANGED),
    _case("columns exchanged", Query(build=_sql("unique k, k2", "select k; v")),
          _sql("unique k2, k", "select k; v"), UNSAFE, Code.KEYS_CHANGED),
    _case("delay of a watermark", TIMED, _sql(
        "time t 2 hours", "unique k, t", "select k; v"), UNDEFINED, Code.WATERMARK_CHANGED),
    _case("watermark removed", TIMED, _sql("unique k, t", "select k; v"), UNDEFINED,
          Code.WATERMARK_CHANGED),
    _case("watermark added", Query(build=_sql("unique k, t", "select k; v")),
          _sql("time t 10 minutes", "unique k, t", "select k; v"), UNDEFINED,
          Code.WATERMARK_CHANGED),
    _case("another column of a watermark", SHIFTED, _sql(
        "select k; v; t; t + interval 3 hours u", "time u 10 minutes", "unique k, t",
        "select k; v"), UNSAFE, Code.WATERMARK_CHANGED),
    # Joins
    _case("nothing changed, join that waits", KEPT, KEPT, SAFE),
    _case("key of a join", KEPT, _join("a.k = b.k2", delay="3 hours"), UNSAFE, Code.KEYS_CHANGED),
    _case("inner to outer", JOIN, _join("a.k = b.k", how="leftOuter"), UNSAFE,
          Code.JOIN_TYPE_CHANGED),
    _case("outer to inner", replace(JOIN, build=_join("a.k = b.k", how="leftOuter")),
          _join("a.k = b.k"), UNDEFINED, Code.JOIN_TYPE_CHANGED),
    _case("interval of a join", JOIN, _join("a.k = b.k", within="20 minutes"), UNDEFINED,
          Code.JOIN_CHANGED),
    _case("column of a join added", JOIN, _join("a.k = b.k", columns="a.k; b.v; b.w"), UNSAFE,
          Code.STATE_SCHEMA_CHANGED),
    _case("column of a join exchanged", KEPT, _join(
        "a.k = b.k", columns="a.k; b.w", delay="3 hours"), UNSAFE, Code.JOIN_CHANGED),
    _case("filter after a join", KEPT, lambda read: KEPT.build(read).where("v > 9"), UNDEFINED,
          Code.INPUT_CHANGED),
    # State of the user's own
    _case("nothing changed, own state", OWN, OWN, SAFE),
    _case("own state of another type", OWN, _counting("n double"), UNSAFE,
          Code.STATE_SCHEMA_CHANGED),
    _case("own state renamed", OWN, _counting("m long"), UNDEFINED, Code.STATE_FIELDS_RENAMED),
    _case("own state that may be nothing", replace(OWN, build=_counting("n long not null")),
          _counting("n long"), UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("own state that may not be nothing", OWN, _counting("n long not null"), SAFE),
    _case("own state with a timeout", OWN, _counting("n long", "EventTimeTimeout"), UNSAFE,
          Code.TIMEOUT_CHANGED),
    _case("function of own state", OWN, _counting("n long", plus=1), UNDEFINED,
          Code.FUNCTION_CHANGED),
    # Variables of transformWithState
    _case("nothing changed, processor", PROCESSOR, PROCESSOR, SAFE),
    _case("variable renamed", PROCESSOR, processing("value m: c long"), UNSAFE,
          Code.STATE_VARIABLES_CHANGED),
    _case("variable added", PROCESSOR, processing("value n: c long", "value m: c long"),
          UNDEFINED, Code.STATE_VARIABLES_CHANGED),
    _case("variable removed", replace(
        PROCESSOR, build=processing("value n: c long", "map m: c long")),
        processing("value n: c long"), UNDEFINED, Code.STATE_VARIABLES_CHANGED,
        Code.FUNCTION_CHANGED),
    _case("variable of another kind", PROCESSOR, processing("list n: c long"), UNSAFE,
          Code.STATE_SCHEMA_CHANGED),
    _case("variable of another type", PROCESSOR, processing("value n: c string"), UNSAFE,
          Code.STATE_SCHEMA_CHANGED),
    _case("map with a wider value", replace(PROCESSOR, build=processing("map n: c int")),
          processing("map n: c int, d int"), UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("field of a variable renamed", PROCESSOR, processing("value n: d long"), UNDEFINED,
          Code.STATE_FIELDS_RENAMED),
    _case("variable that may be nothing", replace(
        PROCESSOR, build=processing("value n: c long not null")), processing("value n: c long"),
        UNSAFE, Code.STATE_SCHEMA_CHANGED),
    _case("variable that may not be nothing", PROCESSOR, processing("value n: c long not null"),
          UNDEFINED, Code.FUNCTION_CHANGED),
    _case("code of a processor", PROCESSOR, processing("value n: c long", plus=1), UNDEFINED,
          Code.FUNCTION_CHANGED),
    _case("time mode", PROCESSOR, processing("value n: c long", mode="ProcessingTime"), UNSAFE,
          Code.TIMEOUT_CHANGED),
    # Together
    _case("filter after, limit of a batch, and a rename", SUM, replace(
        SUM, build=_sql("group k : sum(v) total", "where total > 2"),
        options={"maxFilesPerTrigger": "1", "cleanSource": "off"}), SAFE,
        Code.RESULT_CHANGED, Code.SOURCE_OPTION_CHANGED),
    _case("filter before, and another aggregate", SUM, _sql(
        "where v > 1", "group k : max(v) s"), UNSAFE, Code.INPUT_CHANGED, Code.AGGREGATES_CHANGED),
    _case("source added, and another key", SUM, replace(
        SUM, build=lambda read: _union(read).groupBy(sql.length("k").alias("k")).count(),
        reads=("in0", "in1")), UNSAFE, Code.SOURCE_COUNT_CHANGED, Code.STATE_SCHEMA_CHANGED),
)  # fmt: skip
