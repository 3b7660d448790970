"""Changes of a query's sources, sink and surroundings between two starts."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

_NEVER = ((PREDICTED, "never notices"),)

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SOURCE_COUNT_CHANGED: Explanation(
        meaning="The query reads another number of sources than the checkpoint has offsets of.",
        causes="A source was added to a union or a join, or taken out.",
        spark=(
            (PREDICTED, "refuses the start with a bare assertion, before anything is written"),
            (
                "with version 2 of the offset log",
                (
                    "gives each source the offset of its place, forgets what is left over, and"
                    " reads a source without an offset from its beginning"
                ),
            ),
        ),
        cures="Take the change back, give the other source a query of its own, or"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_KIND_CHANGED: Explanation(
        meaning="A source is of another kind than the one that wrote the offsets.",
        causes="A move from files to Kafka, say, on the old checkpoint.",
        spark=((PREDICTED, "cannot read the offset, and fails at the start"),),
        cures=f"Take the change back, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCES_SWAPPED: Explanation(
        meaning="The same sources come in another order. Offsets are kept by place, not by name.",
        causes="The sides of a union or a join were exchanged.",
        spark=(
            (PREDICTED, "Delta notices by the table's id, Kafka only if a partition is missing"),
            (PREDICTED, "files and rates go on from each other's offsets without an error"),
        ),
        cures="Name the sources in the old order.",
    ),
    Code.SOURCE_TARGET_CHANGED: Explanation(
        meaning="A source reads another topic, path or table than before.",
        causes="A path or topic was changed, on purpose or with the environment.",
        spark=(
            (
                PREDICTED,
                "files: fails when the old path's files are read again, except below a glob",
            ),
            (PREDICTED, "Kafka: a new topic is read from its beginning; one that is gone may fail"),
            (PREDICTED, "Delta: refuses another table by its id"),
        ),
        cures=f"Take the change back, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_OPTION_CHANGED: Explanation(
        meaning="An option of a source is another one.",
        causes="Rates and limits may change at any time; where to begin has no effect any more;"
        " options of a format decide what is in the rows.",
        spark=((PREDICTED, "keeps no option in a checkpoint, and compares none"),),
        cures="None is needed for rates. For servers and formats, know that it is what you want.",
    ),
    Code.SOURCE_SCHEMA_CHANGED: Explanation(
        meaning="A source has other columns or types.",
        causes="The declared schema was changed, or a table was.",
        spark=((PREDICTED, "keeps no schema of a source, except Delta where it is asked to"),),
        cures="None is needed where no state depends on it: that is compared by itself.",
    ),
    Code.SOURCE_RENAMED: Explanation(
        meaning="A named source has no offsets under its name.",
        causes="It was renamed, or is new.",
        spark=(("4.2 and later", "reads it from its beginning, without a word"),),
        cures="Keep the name. A new source may start from its beginning.",
    ),
    Code.WATERMARK_CHANGED: Explanation(
        meaning="Column or delay of a watermark is another one, or there is one more or less.",
        causes="Somebody tuned how late a row may be.",
        spark=((PREDICTED, "takes the later of the watermark in the checkpoint and the new one"),),
        cures="A longer delay takes effect when the watermark is reached again; a shorter one at"
        f" once. For another column, {advice.NEW_CHECKPOINT}.",
    ),
    Code.FUNCTION_CHANGED: Explanation(
        meaning="The code of a Python function in the query is another one.",
        causes="A new release of the job.",
        spark=_NEVER,
        cures="None is needed where nothing is remembered. State made by the old code stays.",
    ),
    Code.INPUT_CHANGED: Explanation(
        meaning="Filters, explodes or joins with tables before a stateful operator are others.",
        causes="A filter was added or removed before an aggregate.",
        spark=((PREDICTED, "allows it, and never notices"),),
        cures=f"Accept it if state of both kinds is wanted; otherwise {advice.NEW_CHECKPOINT}.",
    ),
    Code.RESULT_CHANGED: Explanation(
        meaning="Filters or columns after the last stateful operator are others.",
        causes="A new release of the job.",
        spark=((PREDICTED, "allows it, as long as the sink takes the rows"),),
        cures="None is needed.",
    ),
    Code.SINK_CHANGED: Explanation(
        meaning="The query writes to another sink, or another place.",
        causes="A table was renamed or moved; a sink was exchanged.",
        spark=(
            (PREDICTED, "records no sink; a new one lacks what was written before"),
            (PREDICTED, "the file sink skips batches that the log of its new folder already has"),
        ),
        cures="Copy what was written before, then start once with `--accept SINK_CHANGED --accept"
        f" SINK_BEHIND`, as the new sink has no ledger of the job; or {advice.NEW_CHECKPOINT}.",
    ),
    Code.ROWS_DO_NOT_FIT: Explanation(
        meaning="The rows of the query do not fit a table that it writes to: a column is missing"
        " there, or has a different type.",
        causes="A new release of the job has new columns or types, or somebody changed the table.",
        spark=(
            (PREDICTED, "plans the first batch, which holdfast refuses with `SCHEMA_MISMATCH`"),
        ),
        cures="Cast or drop the column in the job's function, or add it to the table.",
    ),
    Code.OUTPUT_MODE_CHANGED: Explanation(
        meaning="The output mode is another one.",
        causes="A change from append to update, say.",
        spark=(
            (PREDICTED, "never notices, except for transformWithState"),
            ("4.0 and later", "transformWithState refuses the state"),
        ),
        cures=f"Take the change back, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.SETTING_CHANGED: Explanation(
        meaning="A setting that no checkpoint pins differs from the last run, and changes what is"
        " computed: the session's time zone, ANSI mode, the format of state.",
        causes="Another cluster, another default of a newer Spark, or a change on purpose.",
        spark=((PREDICTED, "pins a fixed list of settings and forgets all others"),),
        cures="Give the old value with `--set KEY=VALUE`.",
    ),
    Code.SPARK_UPGRADED: Explanation(
        meaning="A newer Spark than the one that wrote the checkpoint is to start.",
        causes="An upgrade.",
        spark=(
            ("3.5 to 4.x", "checks no operator at the first start: change nothing else with it"),
            (
                "3.5 to 4.x",
                "`dropDuplicates` by five columns or more may put them in another order",
            ),
            (
                "3.5 to 4.x",
                "may refuse the state of a join, of columns that 3.5 knew not to be null",
            ),
            ("4.x", "reads what earlier versions wrote"),
        ),
        cures="Keep a copy of the checkpoint until the first batches are done.",
    ),
    Code.SPARK_DOWNGRADED: Explanation(
        meaning="An older Spark than the one that wrote the checkpoint is to start.",
        causes="An upgrade is taken back.",
        spark=(
            (PREDICTED, "promises nothing; logs of a newer format are refused, settings ignored"),
        ),
        cures="Restore the copy from before the upgrade, or stay on the newer Spark.",
    ),
}
