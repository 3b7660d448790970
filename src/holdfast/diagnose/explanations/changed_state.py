"""Explanations of changes to what a query keeps in its state."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

_BY_TYPE = ((PREDICTED, "compares types by position, but neither names nor meaning"),)
_UNDO_OR_START_OVER = f"Undo the change, or {advice.NEW_CHECKPOINT}."

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.OPERATORS_CHANGED: Explanation(
        meaning="The stateful operators of the query differ from the operators that wrote the"
        " state.",
        causes="An aggregate, a deduplication or a join was added, removed or replaced.",
        spark=(
            ("3.5", "compares nothing, and may drop rows without an error"),
            (
                "4.0 and later",
                (
                    "compares the operators' names and fails when it plans a batch; a new batch has"
                    " its offset entry by then"
                ),
            ),
            (
                "4.0 and 4.1",
                (
                    "fails if an operator has no state yet, because the first version of its state"
                    " is missing"
                ),
            ),
        ),
        cures=_UNDO_OR_START_OVER,
    ),
    Code.OPERATORS_SWAPPED: Explanation(
        meaning="Two stateful operators of the same kind swapped places, so each loads the state"
        " of the other.",
        causes="The order of two deduplications or two joins changed.",
        spark=(
            (
                PREDICTED,
                "numbers operators by their position and compares only their names: never notices",
            ),
        ),
        cures="Undo the change.",
    ),
    Code.STATE_SCHEMA_CHANGED: Explanation(
        meaning="The keys or values of the state have different types, or there are more or fewer"
        " of them.",
        causes="A grouping column, an aggregate or a column of a join was added, removed or cast.",
        spark=(
            (
                PREDICTED,
                (
                    "refuses the state with `STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE` or a similar"
                    " error when it plans a batch; a new batch has its offset entry by then"
                ),
            ),
        ),
        cures=_UNDO_OR_START_OVER,
    ),
    Code.KEYS_CHANGED: Explanation(
        meaning="The state has different keys of the same types: a different column, window or"
        " order. Spark reads old state under keys that mean something else.",
        causes="`groupBy`, `dropDuplicates` or a join condition names a different column; a window"
        " has a different length; or an upgrade from 3.5 with five or more columns in"
        " `dropDuplicates`.",
        spark=_BY_TYPE,
        cures=_UNDO_OR_START_OVER,
    ),
    Code.AGGREGATES_CHANGED: Explanation(
        meaning="The state columns have the same types but different aggregates: a sum continues"
        " as a maximum, or as the sum of a different column.",
        causes="An aggregate was replaced, or two aggregates were swapped.",
        spark=_BY_TYPE,
        cures=_UNDO_OR_START_OVER,
    ),
    Code.JOIN_TYPE_CHANGED: Explanation(
        meaning="The type of a stream-stream join changed.",
        causes="For example, `inner` became `leftOuter`.",
        spark=((PREDICTED, "forbids the change in its documentation, but never notices it"),),
        cures=_UNDO_OR_START_OVER,
    ),
    Code.JOIN_CHANGED: Explanation(
        meaning="A stream-stream join has a different condition besides its keys, or keeps"
        " different columns of the same types.",
        causes="For example, the interval of a time condition changed.",
        spark=(
            (PREDICTED, "calls the change ill-defined in its documentation, but never notices it"),
        ),
        cures="Accept the change if you do not need the rows that the old condition removed.",
    ),
    Code.STATE_FIELDS_RENAMED: Explanation(
        meaning="Fields of user-defined state have new names and the same types.",
        causes="Somebody edited the schema of the state.",
        spark=_BY_TYPE,
        cures="No action is needed if the field at each position still means the same.",
    ),
    Code.STATE_VARIABLES_CHANGED: Explanation(
        meaning="A processor of `transformWithState` has different state variables.",
        causes="A variable was renamed, added or removed. Spark finds each variable by its name"
        " alone.",
        spark=(
            (
                "4.0 and later",
                "starts a variable empty if it does not find its name, without a message",
            ),
        ),
        cures="Keep the old name. A new variable needs no action if it may be empty for keys that"
        " already had rows. A removed variable needs no action; to free its space, call"
        " `deleteIfExists` in `init`.",
    ),
    Code.TIMEOUT_CHANGED: Explanation(
        meaning="User-defined state has a different kind of timeout, a different time mode or a"
        " different time to live.",
        causes="For example, a change from processing time to event time.",
        spark=(
            (
                PREDICTED,
                (
                    "refuses a change from or to no timeout, because the state has one column more"
                    " or less"
                ),
            ),
            (PREDICTED, "does not notice a change from one clock to the other"),
            ("4.0 and later", "refuses a different time mode of transformWithState"),
        ),
        cures=_UNDO_OR_START_OVER,
    ),
}
