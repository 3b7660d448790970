"""Explanations of changes to the sources, sink, settings or Spark version of a query."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

_NEVER = ((PREDICTED, "never notices"),)

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SOURCE_COUNT_CHANGED: Explanation(
        meaning="The query reads a different number of sources than the checkpoint has offsets"
        " for.",
        causes="A source was added to a union or a join, or removed.",
        spark=(
            (PREDICTED, "refuses to start with a bare assertion, before it writes anything"),
            (
                "with version 2 of the offset log",
                (
                    "gives each source the offset at its position, drops offsets that are left"
                    " over, and reads a source without an offset from its beginning"
                ),
            ),
        ),
        cures="Undo the change, give the additional source a query of its own, or"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_KIND_CHANGED: Explanation(
        meaning="The kind of a source changed, and the new source cannot read the offsets of the"
        " old one.",
        causes="For example, the query moved from files to Kafka and kept its checkpoint.",
        spark=((PREDICTED, "cannot read the offset, and fails at the start"),),
        cures=f"Undo the change, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCES_SWAPPED: Explanation(
        meaning="The query reads the same sources in a different order, so each source continues"
        " from the offsets of another. Spark stores offsets by position, not by name.",
        causes="The two sides of a union or a join were swapped.",
        spark=(
            (
                PREDICTED,
                "Delta notices by the table id; Kafka notices only if a partition is missing",
            ),
            (PREDICTED, "files and rate continue from each other's offsets without an error"),
        ),
        cures="List the sources in the old order.",
    ),
    Code.SOURCE_TARGET_CHANGED: Explanation(
        meaning="A source reads a different topic, path or table than before.",
        causes="Somebody changed the path or topic, on purpose or with the environment.",
        spark=(
            (
                PREDICTED,
                (
                    "files: fails when it reads files of the old path again, unless the new path is"
                    " a glob"
                ),
            ),
            (
                PREDICTED,
                (
                    "Kafka: reads a new topic from its beginning; may fail if a topic is no longer"
                    " subscribed"
                ),
            ),
            (PREDICTED, "Delta: refuses a different table by its id"),
        ),
        cures=f"Undo the change, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_OPTION_CHANGED: Explanation(
        meaning="An option of a source changed.",
        causes="Rate limits may change at any time. Starting positions no longer have an effect."
        " Options of a file format decide what is in the rows.",
        spark=((PREDICTED, "records no options in a checkpoint, and compares none"),),
        cures="Rate limits need no action. For servers and formats, make sure that you want the"
        " change.",
    ),
    Code.SOURCE_SCHEMA_CHANGED: Explanation(
        meaning="The columns or types of a source changed.",
        causes="The declared schema changed, or the table did.",
        spark=((PREDICTED, "records no source schemas, except Delta if it is configured to"),),
        cures="No action is needed unless state depends on the columns; state is checked"
        " separately.",
    ),
    Code.SOURCE_RENAMED: Explanation(
        meaning="A named source has no offsets under its name, so Spark reads it from its"
        " beginning.",
        causes="The source was renamed, or it is new.",
        spark=(("4.2 and later", "reads the source from its beginning, without a message"),),
        cures="Keep the old name. A new source may start from its beginning.",
    ),
    Code.WATERMARK_CHANGED: Explanation(
        meaning="The column or the delay of a watermark changed, or a watermark was added or"
        " removed.",
        causes="Somebody changed how late a row may arrive.",
        spark=(
            (PREDICTED, "uses the later of the new watermark and the watermark in the checkpoint"),
        ),
        cures="A longer delay takes effect once the new watermark passes the recorded one; a"
        " shorter delay takes effect immediately. For a different column,"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.FUNCTION_CHANGED: Explanation(
        meaning="The code of a Python function in the query changed.",
        causes="A new release of the job.",
        spark=_NEVER,
        cures="No action is needed if the query has no state. State that the old code made"
        " remains.",
    ),
    Code.INPUT_CHANGED: Explanation(
        meaning="Filters, explodes or joins with tables before a stateful operator changed, so"
        " different rows reach its state.",
        causes="For example, a filter was added or removed before an aggregate.",
        spark=((PREDICTED, "allows the change, and never notices"),),
        cures="Accept the change if the state may mix rows of both versions; otherwise"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.RESULT_CHANGED: Explanation(
        meaning="Filters or columns after the last stateful operator changed.",
        causes="A new release of the job.",
        spark=((PREDICTED, "allows the change, as long as the sink accepts the rows"),),
        cures="No action is needed.",
    ),
    Code.SINK_CHANGED: Explanation(
        meaning="The query writes to a different sink or a different place, which lacks everything"
        " written before.",
        causes="A table was renamed or moved, or the sink was replaced.",
        spark=(
            (PREDICTED, "does not record the sink; a new sink lacks everything written before"),
            (
                PREDICTED,
                "with a file sink, skips batches that the log of the new folder already has",
            ),
        ),
        cures="Copy what was written before, then start once with `--accept SINK_CHANGED --accept"
        " SINK_BEHIND`, because the new sink has no ledger of the job; or"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.ROWS_DO_NOT_FIT: Explanation(
        meaning="The first batch will fail: the table that the query writes to lacks a column of"
        " its rows, or has a different type for it.",
        causes="A new release of the job has new columns or types, or somebody changed the table.",
        spark=(
            (PREDICTED, "plans the first batch, which holdfast refuses with `SCHEMA_MISMATCH`"),
        ),
        cures="Cast or drop the column in the job's function, or add it to the table.",
    ),
    Code.OUTPUT_MODE_CHANGED: Explanation(
        meaning="The output mode changed.",
        causes="For example, a change from append to update.",
        spark=(
            (PREDICTED, "never notices, except with transformWithState"),
            ("4.0 and later", "refuses the state of transformWithState"),
        ),
        cures=f"Undo the change, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SETTING_CHANGED: Explanation(
        meaning="A setting differs from the last run and changes what the query computes, for"
        " example the session time zone, ANSI mode or the state format. The checkpoint does not"
        " pin this setting.",
        causes="A different cluster, a different default in a newer Spark, or a change on purpose.",
        spark=((PREDICTED, "pins a fixed list of settings and does not record any others"),),
        cures="Pass the old value with `--set KEY=VALUE`.",
    ),
    Code.SPARK_UPGRADED: Explanation(
        meaning="The query starts on a newer Spark than the one that wrote the checkpoint.",
        causes="An upgrade.",
        spark=(
            (
                "3.5 to 4.x",
                "does not check operators at the first start: change nothing else at the same time",
            ),
            (
                "3.5 to 4.x",
                (
                    "may put the columns of `dropDuplicates` in a different order if there are five"
                    " or more"
                ),
            ),
            ("3.5 to 4.x", "may refuse the state of a join if 3.5 recorded columns as never null"),
            ("4.x", "reads what earlier versions wrote"),
        ),
        cures="Keep a copy of the checkpoint until the first batches are done.",
    ),
    Code.SPARK_DOWNGRADED: Explanation(
        meaning="The query starts on an older Spark than the one that wrote the checkpoint.",
        causes="Somebody reverted an upgrade.",
        spark=(
            (
                PREDICTED,
                "guarantees nothing; refuses logs in a newer format, and ignores newer settings",
            ),
        ),
        cures="Restore the copy from before the upgrade, or stay on the newer Spark.",
    ),
}
