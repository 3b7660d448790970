"""Every change between two queries, each code at one that shows it; Spark is not needed to tell."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import recorded
from tests.golden import FOLDER

from holdfast.decode import fingerprint as plans
from holdfast.diagnose.explanations import changed_state, changes
from holdfast.model import advice
from holdfast.model.finding import Check, Code, Judgement, Severity
from holdfast.model.fingerprint import (
    Fingerprint,
    PlanOperator,
    PlanSink,
    PlanSource,
    PlanWatermark,
    Term,
)
from holdfast.report import check as report
from holdfast.run.query import check as checks
from holdfast.run.session import build

TOPIC = PlanSource(
    name="",
    kind="Kafka",
    target="orders",
    options={"kafka.bootstrap.servers": "broker:9092", "startingOffsets": "earliest"},
    columns=(Term(name="value", type="binary", text="value"),),
)
SUM = PlanOperator(
    kind="stateStoreSave",
    keys=(Term(name="k", type="string", text="k"),),
    values=(Term(name="s", type="", text="sum(v)"),),
    stored=(Term(name="sum", type="bigint", text=""),),
    details={},
    steps=("filter (v > 1)",),
)
OWN = replace(
    SUM,
    kind="applyInPandasWithState",
    values=(),
    stored=(),
    details={"state": "struct<n:bigint>", "timeout": "EventTimeTimeout"},
)
JOIN = replace(
    SUM,
    kind="symmetricHashJoin",
    stored=(),
    values=(Term(name="left v", type="bigint", text="v"),),
    details={"join type": "Inner", "condition": "(a < b)"},
)
PROCESSOR = replace(
    SUM,
    kind="transformWithStateInPySparkExec",
    values=(Term(name="n", type="struct<c:bigint>", text="ValueState"),),
    stored=(),
)
OLD = Fingerprint(
    spark_version="4.1.1",
    sources=(TOPIC,),
    watermarks=(PlanWatermark(column="t", delay="10 minutes"),),
    operators=(SUM,),
    steps=(),
    columns=(Term(name="k", type="string", text="k"),),
    functions={"f": "3.11 abc"},
    sinks=(PlanSink(name="out", kind="DeltaAppend", target="/lake/orders"),),
    output_mode="update",
    settings={
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    },
)
CHANGES = {*changes.EXPLANATIONS, *changed_state.EXPLANATIONS}


def checked(folder: Path, new: Fingerprint, old: Fingerprint | None = OLD) -> Check:
    """The check of a query on a small checkpoint of one topic."""
    location = files.write(folder / "orders")
    if old is not None:
        for number, operator in enumerate(old.operators):
            _operator(location, number, operator)
        recorded(location, plan=plans.encode(old))
    return checks.compare("orders", str(location), {}, new)


def _operator(location: Path, number: int, operator: PlanOperator) -> None:
    info: dict[str, object] = {
        "operatorInfo": {"operatorId": number, "operatorName": operator.kind},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
    }
    if operator.kind != PROCESSOR.kind:
        path = location / f"state/{number}/_metadata/metadata"
        header = "v1"
    else:
        path, header = location / f"state/{number}/_metadata/v2/0", "v2"
        store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}
        info["stateStoreInfo"] = [{**store, "stateSchemaFilePaths": []}]
        info["operatorPropertiesJson"] = json.dumps(
            {
                "stateVariables": [
                    {
                        "stateName": one.name,
                        "stateVariableType": one.text.split(" ")[0],
                        "ttlEnabled": " " in one.text,
                    }
                    for one in operator.values
                ]
            }
        )
    path.parent.mkdir(parents=True)
    path.write_text(f"{header}\n{json.dumps(info)}")


def _variables(*told: str) -> PlanOperator:
    """A processor with variables: `n ValueState`, or with a time to live `n ValueState 1000`."""
    pairs = (one.split(" ", 1) for one in told)
    made = tuple(Term(name=name, type="struct<c:bigint>", text=text) for name, text in pairs)
    return replace(PROCESSOR, values=made)


def _of(old: PlanOperator, new: PlanOperator) -> tuple[Fingerprint, Fingerprint]:
    return replace(OLD, operators=(old,)), replace(OLD, operators=(new,))


def _source(**changed: object) -> tuple[Fingerprint, Fingerprint]:
    return OLD, replace(OLD, sources=(replace(TOPIC, **changed),))  # type: ignore[arg-type]


OTHER = replace(SUM, keys=(Term(name="k2", type="string", text="k2"),))
CASES: dict[str, tuple[Code, Severity, tuple[Fingerprint, Fingerprint]]] = {
    "source added": (
        Code.SOURCE_COUNT_CHANGED,
        Severity.BLOCKS,
        (OLD, replace(OLD, sources=(TOPIC, TOPIC))),
    ),
    "another kind": (
        Code.SOURCE_KIND_CHANGED,
        Severity.BLOCKS,
        _source(kind="files", target="/landing"),
    ),
    "another topic": (Code.SOURCE_TARGET_CHANGED, Severity.BLOCKS, _source(target="bills")),
    "a topic more": (
        Code.SOURCE_TARGET_CHANGED,
        Severity.UNDEFINED,
        _source(target="bills, orders"),
    ),
    "another cluster": (
        Code.SOURCE_OPTION_CHANGED,
        Severity.UNDEFINED,
        _source(options={**TOPIC.options, "kafka.bootstrap.servers": "other:9092"}),
    ),
    "another beginning": (
        Code.SOURCE_OPTION_CHANGED,
        Severity.NOTE,
        _source(options={**TOPIC.options, "startingOffsets": "latest"}),
    ),
    "another column": (
        Code.SOURCE_SCHEMA_CHANGED,
        Severity.NOTE,
        _source(columns=(Term(name="value", type="string", text="value"),)),
    ),
    "a source with a new name": (
        Code.SOURCE_RENAMED,
        Severity.DUPLICATES,
        _source(name="orders"),
    ),
    "another delay": (
        Code.WATERMARK_CHANGED,
        Severity.UNDEFINED,
        (OLD, replace(OLD, watermarks=(PlanWatermark(column="t", delay="1 hours"),))),
    ),
    "another time": (
        Code.WATERMARK_CHANGED,
        Severity.LOSES,
        (OLD, replace(OLD, watermarks=(PlanWatermark(column="u", delay="10 minutes"),))),
    ),
    "operator removed": (
        Code.OPERATORS_CHANGED,
        Severity.BLOCKS,
        (OLD, replace(OLD, operators=())),
    ),
    "operators exchanged": (
        Code.OPERATORS_SWAPPED,
        Severity.LOSES,
        (replace(OLD, operators=(SUM, OTHER)), replace(OLD, operators=(OTHER, SUM))),
    ),
    "key of another type": (
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        _of(SUM, replace(SUM, keys=(Term(name="k", type="bigint", text="k"),))),
    ),
    "another key": (Code.KEYS_CHANGED, Severity.LOSES, _of(SUM, OTHER)),
    "another aggregate": (
        Code.AGGREGATES_CHANGED,
        Severity.LOSES,
        _of(SUM, replace(SUM, values=(Term(name="s", type="", text="max(v)"),))),
    ),
    "inner to outer": (
        Code.JOIN_TYPE_CHANGED,
        Severity.DUPLICATES,
        _of(JOIN, replace(JOIN, details={**JOIN.details, "join type": "LeftOuter"})),
    ),
    "another interval": (
        Code.JOIN_CHANGED,
        Severity.UNDEFINED,
        _of(JOIN, replace(JOIN, details={**JOIN.details, "condition": "(a < b + 1)"})),
    ),
    "state renamed": (
        Code.STATE_FIELDS_RENAMED,
        Severity.UNDEFINED,
        _of(OWN, replace(OWN, details={**OWN.details, "state": "struct<m:bigint>"})),
    ),
    "state that may be null": (
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        _of(
            replace(OWN, details={**OWN.details, "state": "struct<n:bigint not null>"}),
            replace(OWN, details={**OWN.details, "state": "struct<m:bigint>"}),
        ),
    ),
    "variable renamed": (
        Code.STATE_VARIABLES_CHANGED,
        Severity.LOSES,
        _of(PROCESSOR, _variables("m ValueState")),
    ),
    "variable added": (
        Code.STATE_VARIABLES_CHANGED,
        Severity.UNDEFINED,
        _of(PROCESSOR, _variables("m ValueState", "n ValueState")),
    ),
    "variable removed": (
        Code.STATE_VARIABLES_CHANGED,
        Severity.NOTE,
        _of(_variables("m ListState", "n ValueState"), PROCESSOR),
    ),
    "variable of another kind": (
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        _of(PROCESSOR, _variables("n ListState")),
    ),
    "variable with a time to live": (
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        _of(PROCESSOR, _variables("n ValueState 1000")),
    ),
    "variable that lives longer": (
        Code.TIMEOUT_CHANGED,
        Severity.UNDEFINED,
        _of(_variables("n ValueState 1000"), _variables("n ValueState 2000")),
    ),
    "another clock": (
        Code.TIMEOUT_CHANGED,
        Severity.LOSES,
        _of(OWN, replace(OWN, details={**OWN.details, "timeout": "ProcessingTimeTimeout"})),
    ),
    "another function": (
        Code.FUNCTION_CHANGED,
        Severity.UNDEFINED,
        (OLD, replace(OLD, functions={"f": "3.11 def"})),
    ),
    "filter before": (Code.INPUT_CHANGED, Severity.UNDEFINED, _of(SUM, replace(SUM, steps=()))),
    "filter after": (
        Code.RESULT_CHANGED,
        Severity.NOTE,
        (OLD, replace(OLD, steps=("filter (sum(v) > 1)",))),
    ),
    "another table": (
        Code.SINK_CHANGED,
        Severity.UNDEFINED,
        (OLD, replace(OLD, sinks=(replace(OLD.sinks[0], target="/lake/bills"),))),
    ),
    "another mode": (
        Code.OUTPUT_MODE_CHANGED,
        Severity.UNDEFINED,
        (OLD, replace(OLD, output_mode="append")),
    ),
    "another time zone": (
        Code.SETTING_CHANGED,
        Severity.UNDEFINED,
        (
            OLD,
            replace(OLD, settings={**OLD.settings, "spark.sql.session.timeZone": "Asia/Tokyo"}),
        ),
    ),
    "a newer Spark": (
        Code.SPARK_UPGRADED,
        Severity.NOTE,
        (OLD, replace(OLD, spark_version="4.2.0")),
    ),
    "an older Spark": (
        Code.SPARK_DOWNGRADED,
        Severity.UNDEFINED,
        (OLD, replace(OLD, spark_version="4.0.1")),
    ),
    "sources exchanged": (
        Code.SOURCES_SWAPPED,
        Severity.LOSES,
        (
            replace(OLD, sources=(TOPIC, replace(TOPIC, target="bills"))),
            replace(OLD, sources=(replace(TOPIC, target="bills"), TOPIC)),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_told_alone(name: str, tmp_path: Path) -> None:
    code, severity, (old, new) = CASES[name]
    found = (
        _two_sources(tmp_path, old, new) if len(old.sources) > 1 else checked(tmp_path, new, old)
    )
    assert [(one.code, one.severity) for one in found.findings] == [(code, severity)]


def _two_sources(folder: Path, old: Fingerprint, new: Fingerprint) -> Check:
    """The same with two topics in every offset entry."""
    checked(folder, new, old)
    location = folder / "orders"
    for entry in (location / "offsets").iterdir():
        entry.write_text(entry.read_text() + '\n{"bills":{"0":7}}')
    return checks.compare("orders", str(location), {}, new)


def test_version_2_goes_by_place_and_not_by_the_order_or_number_of_lines(tmp_path: Path) -> None:
    """`1:` comes before `0:`, of three sources the last has no offset yet."""
    bills = replace(TOPIC, kind="files", target="/bills")
    old = replace(OLD, sources=(TOPIC, bills, bills))
    checked(tmp_path, old, old)
    location = tmp_path / "orders"
    for entry in (location / "offsets").iterdir():
        head, topic = entry.read_text().removeprefix("v1\n").split("\n")
        entry.write_text(f'v2\n{head}\n1:{{"logOffset":0}}\n0:{topic}')
    assert not checks.compare("orders", str(location), {}, old).findings
    for new in ((TOPIC,), (TOPIC, bills), (TOPIC, bills, bills, bills)):
        found = checks.compare("orders", str(location), {}, replace(old, sources=new))
        (one,) = found.findings
        assert (one.code, one.severity) == (Code.SOURCE_COUNT_CHANGED, Severity.UNDEFINED)
    swapped = replace(old, sources=(bills, TOPIC, bills))
    found = checks.compare("orders", str(location), {}, swapped)
    assert {one.code for one in found.findings} == {Code.SOURCE_KIND_CHANGED}
    shutil.rmtree(tmp_path / ".holdfast")
    found = checks.compare("orders", str(location), {}, old)
    assert {one.code for one in found.findings} == {Code.SPARK_UPGRADED}
    assert "whether source 2 (files /bills) is new" in {one.question for one in found.not_assessed}


def test_every_code_of_a_change_is_shown() -> None:
    asked_of_sinks = {Code.ROWS_DO_NOT_FIT}  # in tests/spark/test_check_sinks.py
    assert {code for code, _, _ in CASES.values()} | asked_of_sinks == CHANGES


def test_the_same_query_is_safe(tmp_path: Path) -> None:
    found = checked(tmp_path, OLD)
    assert (found.judgement, found.findings) == (Judgement.SAFE, ())


def test_without_a_record_nothing_is_called_safe(tmp_path: Path) -> None:
    found = checked(tmp_path, replace(OLD, operators=(), watermarks=()), None)
    assert found.judgement is Judgement.UNKNOWN
    assert any("run record" in one.reason for one in found.not_assessed)


def _golden(folder: Path, name: str, new: Fingerprint) -> Check:
    """The check of a query of that state on a checkpoint that Spark wrote, without a record."""
    location = folder / "copied"
    shutil.copytree(FOLDER / name / "checkpoint", location)
    return checks.compare("copied", str(location), {}, new)


FILES = replace(TOPIC, kind="files", target="/landing")


def test_state_of_3_5_is_known_by_its_columns(tmp_path: Path) -> None:
    keys = (Term(name="k", type="string", text="k"), Term(name="t", type="timestamp", text="t"))
    unique = replace(SUM, kind="dedupe", keys=keys, values=(), stored=(), steps=())
    moved = replace(unique, keys=keys[::-1])
    cases = {
        "dedup-watermark-hdfs": (unique, Judgement.UNKNOWN, None),
        "dedup-watermark-changelog": (moved, Judgement.UNSAFE, Code.STATE_SCHEMA_CHANGED),
        "aggregate-complete-hdfs": (unique, Judgement.UNSAFE, Code.OPERATORS_CHANGED),
    }
    for name, (operator, verdict, code) in cases.items():
        new = replace(OLD, sources=(FILES,), operators=(operator,))
        found = _golden(tmp_path / name, f"3.5.9/{name}", new)
        told = {one.code for one in found.findings} - {Code.SPARK_UPGRADED}
        assert (found.judgement, told) == (verdict, {code} if code else set())


def test_a_removed_operator_of_3_5_harms_nothing(tmp_path: Path) -> None:
    new = replace(OLD, sources=(FILES,), operators=(), watermarks=())
    found = _golden(tmp_path, "3.5.9/dedup-hdfs", new)
    assert found.judgement is Judgement.UNKNOWN
    assert (found.findings[0].code, found.findings[0].severity) == (
        Code.OPERATORS_CHANGED,
        Severity.NOTE,
    )


def test_a_join_of_3_5_may_be_refused(tmp_path: Path) -> None:
    new = replace(OLD, sources=(FILES, FILES), operators=(JOIN,))
    found = _golden(tmp_path, "3.5.9/join-inner-hdfs", new)
    assert found.judgement is Judgement.UNDEFINED
    assert found.findings[0].code is Code.STATE_SCHEMA_CHANGED


def test_state_of_4_0_that_4_1_does_not_read(tmp_path: Path) -> None:
    window = Term(name="window", type="struct<start:timestamp,end:timestamp>", text="w")
    operator = replace(SUM, keys=(window, *SUM.keys), values=(), stored=(), steps=())
    new = replace(OLD, sources=(FILES,), operators=(operator,))
    name = "4.0.5/checkpoint-format-2-rocksdb"
    found = _golden(tmp_path / "later", name, new)
    assert found.judgement is Judgement.UNSAFE
    assert found.findings[0].code is Code.STATE_VERSION_UNKNOWN
    same = _golden(tmp_path / "same", name, replace(new, spark_version="4.0.5"))
    assert same.judgement is Judgement.UNKNOWN
    assert any("first query" in one.question for one in same.not_assessed)


@pytest.mark.parametrize(
    ("wish", "severity"), [("2", None), ("1", Severity.LOSES), ("3", Severity.BLOCKS)]
)
def test_partitions_that_4_2_0_forgets(
    wish: str, severity: Severity | None, tmp_path: Path
) -> None:
    location = files.write(tmp_path / "orders")
    files.state(location, range(1, 4))
    entry = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.x": "1"}}
    (location / "offsets/2").write_text(f'v2\n{json.dumps(entry)}\n0:{{"orders":{{"0":30}}}}')
    asked = {"spark.sql.shuffle.partitions": wish}
    for version, expected in (("4.2.0", [severity] if severity else []), ("4.2.1", [])):
        new = replace(OLD, settings=asked, spark_version=version)
        found = checks.compare("orders", str(location), {}, new)
        told = [one for one in found.findings if one.code is Code.PARTITIONS_UNPINNED]
        assert [one.severity for one in told] == expected
        for one in told:
            assert one.remedies[0] == "keep the old value: `--set spark.sql.shuffle.partitions=2`"


def test_a_setting_is_kept_as_told(tmp_path: Path) -> None:
    zone = "spark.sql.session.timeZone"
    old = replace(OLD, settings={**OLD.settings, zone: "UTC"})
    new = replace(old, settings={**old.settings, zone: "Europe/Berlin"})
    (told,) = (
        one
        for one in checked(tmp_path / "changed", new, old).findings
        if one.code is Code.SETTING_CHANGED
    )
    (pair,) = re.findall(r"^keep the old value: `--set (.+)`$", told.remedies[0])
    kept = replace(new, settings={**new.settings, **build.parse_settings((pair,))})
    found = checked(tmp_path / "kept", kept, old).findings
    assert Code.SETTING_CHANGED not in {one.code for one in found}


def test_a_setting_of_3_5_4_is_lost(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    key = "spark.databricks.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
    files.offsets(location, 2, 1, {**files.SETTINGS, key: "false"})
    for version, lost in (("4.0.5", False), ("4.1.1", True)):
        new = replace(OLD, spark_version=version, operators=())
        found = checks.compare("orders", str(location), {}, new)
        assert (Code.SETTING_LOST in {one.code for one in found.findings}) is lost


def test_a_named_source_keeps_its_place(tmp_path: Path) -> None:
    named = replace(TOPIC, name="orders")
    old, elsewhere = replace(OLD, sources=(named,)), replace(named, target="bills")
    checked(tmp_path, old, old)
    location = tmp_path / "orders"
    entry = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": files.SETTINGS}
    for batch in (1, 2):
        end = '{"orders":{"0":30}}'
        (location / f"offsets/{batch}").write_text(f"v2\n{json.dumps(entry)}\norders:{end}")
    same = checks.compare("orders", str(location), {}, old)
    assert Code.SOURCE_TARGET_CHANGED not in {one.code for one in same.findings}
    other = checks.compare("orders", str(location), {}, replace(old, sources=(elsewhere,)))
    assert Code.SOURCE_TARGET_CHANGED in {one.code for one in other.findings}


def test_a_first_start_is_safe(tmp_path: Path) -> None:
    found = checks.compare("orders", str(tmp_path / "nothing"), {}, OLD)
    assert (found.judgement, found.first_start) == (Judgement.SAFE, True)


@pytest.mark.parametrize(
    ("kind", "type_", "codes"),
    [
        ("ValueState", "struct<n:bigint>", []),
        ("ValueState", "struct<m:bigint>", [Code.STATE_FIELDS_RENAMED]),
        ("ValueState", "struct<n:bigint not null>", []),
        ("ValueState", "struct<n:int>", [Code.STATE_SCHEMA_CHANGED]),
        ("MapState", "map<struct<v:bigint>,struct<times:int>>", []),
        ("MapState", "map<struct<v:bigint>,struct<times:bigint>>", [Code.STATE_SCHEMA_CHANGED]),
    ],
)
def test_types_of_variables_that_spark_wrote(kind: str, type_: str, codes: list[Code]) -> None:
    location = "tests/checkpoints/4.1.4/tws-rows-changelog/checkpoint"
    name = "count" if kind == "ValueState" else "byValue"
    values = {
        "count": Term(name="count", type="struct<n:bigint>", text="ValueState"),
        "seen": Term(name="seen", type="struct<v:bigint>", text="ListState"),
        "byValue": Term(
            name="byValue", type="map<struct<v:bigint>,struct<times:int>>", text="MapState"
        ),
    }
    values[name] = Term(name=name, type=type_, text=kind)
    new = replace(OLD, operators=(replace(PROCESSOR, values=tuple(values.values())),))
    said = checks.compare("tws", location, {}, new).findings
    assert [
        one.code for one in said if one.code.startswith("STATE_") and one.clues[0].found == type_
    ] == codes


def test_several_changes_are_judged_together(tmp_path: Path) -> None:
    new = replace(OLD, operators=(replace(OTHER, steps=()),), steps=("filter (sum(v) > 1)",))
    found = checked(tmp_path, new)
    assert found.judgement is Judgement.UNSAFE
    assert [one.code for one in found.findings] == [
        Code.KEYS_CHANGED,
        Code.INPUT_CHANGED,
        Code.RESULT_CHANGED,
    ]


def test_a_fingerprint_is_read_back_as_it_was() -> None:
    assert plans.decode(json.loads(json.dumps(plans.encode(OLD)))) == OLD


def test_the_report(tmp_path: Path) -> None:
    found = checked(tmp_path, replace(OLD, operators=(OTHER,)))
    lines = ["".join(part.text for part in line).rstrip() for line in report.to_lines([found])]
    assert lines[:8] == [
        "unsafe: orders must not start from its checkpoint; 1 change",
        f"  {tmp_path}/orders",
        "",
        (
            "unsafe     KEYS_CHANGED  Operator 0 will misread its state: its keys changed. The new"
            " keys have the same types, so Spark does not notice."
        ),
        "           - k string  .holdfast/orders/runs/1767225600000-r1/000001.jsonl",
        "           + k2 string",
        f"           → undo the change, or {advice.NEW_CHECKPOINT}",
        "",
    ]
    said = json.loads(json.dumps(report.to_json([found])))
    assert (said["format"], said["verdict"]) == (1, "unsafe")
    assert set(said["jobs"][0]) == {
        "job", "location", "verdict", "first_start", "changes", "not_assessed",
    }  # fmt: skip
    assert said["jobs"][0]["changes"][0]["evidence"][0]["expected"] == "k string"


def test_what_nobody_can_tell_is_told(tmp_path: Path) -> None:
    own = replace(TOPIC, kind="weather", target="")
    new = replace(OLD, sources=(own,), steps=("join LeftOuter, (k = k)",))
    said = {one.question for one in checked(tmp_path, new, new).not_assessed}
    assert "whether a table that the stream is joined with has the same rows as before" in said
    assert any("source 0 (weather)" in one for one in said)


def test_before_a_first_commit_no_state_is_missed(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=1, committed=0)
    found = checks.compare("orders", str(location), {}, OLD)
    assert Code.OPERATORS_CHANGED not in {one.code for one in found.findings}
    assert found.judgement is Judgement.UNKNOWN
