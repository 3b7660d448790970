"""Event logs and run records: what happened to a query, and nothing that is only guessed."""

import json

import pytest
from tests import formats

from holdfast.decode import event_log, run_record
from holdfast.model.events import (
    ApplicationSettings,
    ApplicationStarted,
    BatchPlanned,
    LogEvent,
    OperatorProgress,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
    SourceProgress,
)
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import BatchId, QueryId, RunId

QUERY, RUN = QueryId(formats.QUERY), RunId(formats.RUN)
SOURCE = SourceProgress(
    description="FileStreamSource[file:/in]", start=None, end={"logOffset": 0}, rows=2
)


def decoded(*events: object) -> list[LogEvent | Unreadable]:
    return list(event_log.decode(formats.lines(events).splitlines(keepends=True)))


def test_what_an_event_log_tells() -> None:
    application, settings, started, planned, progress, terminated = decoded(*formats.EVENT_LOG)
    assert application == ApplicationStarted(spark_version="4.1.1")
    assert settings == ApplicationSettings(settings={"spark.app.name": "a"})
    assert isinstance(started, QueryStarted)
    assert (started.query_id, started.run_id, started.name) == (QUERY, RUN, "counts")
    assert started.at_ms == 1767225600907
    assert isinstance(started.output_mode, Unknown)
    assert planned == BatchPlanned(
        at_ms=1767225601000,
        query_id=QUERY,
        run_id=RUN,
        batch=BatchId(4),
        location="file:/ck/counts",
        output_mode="complete",
        operators=("StateStoreSave",),
    )
    assert progress == QueryProgress(
        at_ms=1767225601500,
        query_id=QUERY,
        run_id=RUN,
        batch=BatchId(4),
        rows=2,
        sink="FileSink[file:/out]",
        sources=(SOURCE,),
        operators=(OperatorProgress(name="stateStoreSave", numbers={"numRowsTotal": 2}),),
        durations_ms={"addBatch": 69, "triggerExecution": 103},
        watermark="",
    )
    assert isinstance(terminated, QueryTerminated)
    assert (terminated.run_id, terminated.error) == (RUN, "")
    assert isinstance(terminated.at_ms, Unknown)


def plan(operator: str, after: str, **other: object) -> dict[str, object]:
    text = (
        f"{operator} [k#7], state info [ checkpoint = file:/ck/Append, Update, x/state, "
        f"runId = {RUN}, opId = 0, ver = 4, numPartitions = 2]{after}"
    )
    node = {"nodeName": operator, "simpleString": text, "children": []}
    return formats.EVENT_LOG[4] | {"sparkPlanInfo": node} | other


@pytest.mark.parametrize(
    ("operator", "after", "mode"),
    [
        ("StateStoreSave", " stateStoreCkptIds = None, Update, 0, 0, 2", "update"),
        ("StateStoreSave", ", Append, 0, 2", "append"),
        ("StateStoreSave", " stateStoreCkptIds = None", None),
        ("StatefulStreamlineAggregate", ", Update, 0, 0, 2", None),
        ("StreamingDeduplicate", " stateStoreCkptIds = None, 0, 0", None),
    ],
)
def test_an_output_mode_is_read_from_an_aggregate_alone(
    operator: str, after: str, mode: str | None
) -> None:
    (planned,) = decoded(plan(operator, after))
    assert isinstance(planned, BatchPlanned)
    assert planned.location == "file:/ck/Append, Update, x"
    assert planned.operators == (operator,)
    assert planned.output_mode == mode or (
        mode is None and isinstance(planned.output_mode, Unknown)
    )


def test_the_aggregate_of_real_time_mode_has_its_output_mode_before_the_state() -> None:
    found = plan("StatefulStreamlineAggregate", "")
    node = found["sparkPlanInfo"]
    assert isinstance(node, dict)
    node["simpleString"] = node["simpleString"].replace("[k#7],", "[k#7], false, Update, 2,")
    (planned,) = decoded(found)
    assert isinstance(planned, BatchPlanned)
    assert planned.output_mode == "update"


def test_executions_that_are_no_batch_or_inside_one_are_passed_over() -> None:
    assert decoded(plan("StateStoreSave", "", rootExecutionId=1)) == []
    assert decoded(plan("StateStoreSave", "", description="a job of the user's")) == []
    assert decoded(formats.EVENT_LOG[4] | {"sparkPlanInfo": {"nodeName": "Scan"}}) == []


def test_the_plan_of_a_run_is_told_once() -> None:
    first, again = (
        formats.EVENT_LOG[4],
        formats.EVENT_LOG[4] | {"executionId": 9, "rootExecutionId": 9},
    )
    other = first | {"description": f"x\nid = {QUERY}\nrunId = another\nbatch = 0"}
    assert len(decoded(first, again)) == 1
    assert len(decoded(first, other, again)) == 2


def test_settings_of_spark_2_are_pairs() -> None:
    (found,) = decoded(
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": [["a", "b"], ["c"]]}
    )
    assert found == ApplicationSettings(settings={"a": "b"})


def test_a_log_that_is_still_written_ends_in_half_a_line() -> None:
    whole = formats.lines(formats.EVENT_LOG).splitlines(keepends=True)
    *found, last = event_log.decode([*whole, whole[-1][:90]])
    assert len(found) == 6
    assert isinstance(last, Unreadable)


def test_lines_are_taken_one_at_a_time() -> None:
    def endless() -> object:
        yield from formats.lines(formats.EVENT_LOG).splitlines(keepends=True)
        raise AssertionError("read on without being asked")

    events = event_log.decode(endless())  # type: ignore[arg-type]
    assert isinstance(next(events), ApplicationStarted)
    assert isinstance(next(events), ApplicationSettings)


@pytest.mark.parametrize(
    "event",
    [
        {"Event": "SparkListenerLogStart"},
        {"Event": f"{formats.LISTENER}QueryStartedEvent"},
        {"Event": f"{formats.LISTENER}QueryProgressEvent", "progress": {"id": 1}},
        {"Event": f"{formats.LISTENER}QueryTerminatedEvent", "id": "a"},
        {"no": "event"},
    ],
)
def test_an_event_without_its_ids_says_so(event: dict[str, object]) -> None:
    (found,) = decoded(event)
    assert isinstance(found, Unreadable)


def test_what_run_records_tell() -> None:
    started, progress, terminated = run_record.decode(formats.lines(formats.RECORDS), RUN)
    assert isinstance(started, QueryStarted)
    assert (started.at_ms, started.query_id, started.run_id) == (1, QUERY, RUN)
    assert (started.spark_version, started.location) == ("4.1.1", "/ck/counts")
    assert (started.sink, started.output_mode) == ("ForeachBatchSink", "append")
    assert started.sources == ("FileStreamSource[file:/in]",)
    assert started.settings == {"spark.master": "local[2]"}
    assert started.record["job"] == "counts"
    assert isinstance(progress, QueryProgress)
    assert (progress.batch, progress.rows, progress.sources) == (4, 2, (SOURCE,))
    assert progress.operators == (OperatorProgress(name="dedupe", numbers={"numRowsTotal": 2}),)
    assert isinstance(terminated, QueryTerminated)
    assert (terminated.at_ms, terminated.error) == (3, "")


def test_a_record_that_is_cut_leaves_the_others() -> None:
    whole = formats.lines(formats.RECORDS)
    started, progress, last = run_record.decode(whole[:-20], RUN)
    assert isinstance(started, QueryStarted)
    assert isinstance(progress, QueryProgress)
    assert isinstance(last, Unreadable)


def test_a_record_of_another_kind() -> None:
    (found,) = run_record.decode(json.dumps({"event": "paused"}).encode(), RUN)
    assert isinstance(found, Unreadable)
