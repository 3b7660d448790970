"""Changes of what a query keeps in its state."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

_BY_TYPE = ((PREDICTED, "compares types by their place, and neither names nor meaning"),)
_ANEW = f"Take the change back, or {advice.NEW_CHECKPOINT}."

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.OPERATORS_CHANGED: Explanation(
        meaning="The stateful operators of the query are not those whose state is there.",
        causes="An aggregate, a deduplication or a join was added, removed or replaced.",
        spark=(
            ("3.5", "compares nothing: may drop rows without an error"),
            (
                "4.0 and later",
                (
                    "fails when a batch is planned, by the operators' names; a new batch has its"
                    " offset entry by then"
                ),
            ),
            ("4.0 and 4.1", "an operator without state fails as its first version is missing"),
        ),
        cures=_ANEW,
    ),
    Code.OPERATORS_SWAPPED: Explanation(
        meaning="Two stateful operators of one kind have changed places.",
        causes="The order of two deduplications or two joins was changed.",
        spark=((PREDICTED, "numbers operators by their place and compares names: never notices"),),
        cures="Take the change back.",
    ),
    Code.STATE_SCHEMA_CHANGED: Explanation(
        meaning="Keys or values of the state have other types, or another number of them.",
        causes="A grouping column, an aggregate or a column of a join was added, removed or cast.",
        spark=(
            (
                PREDICTED,
                (
                    "refuses it with `STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE` or its like, when a"
                    " batch is planned; a new batch has its offset entry by then"
                ),
            ),
        ),
        cures=_ANEW,
    ),
    Code.KEYS_CHANGED: Explanation(
        meaning="State is kept by other keys of the same types: another column, another window,"
        " another order.",
        causes="`groupBy`, `dropDuplicates` or a join's condition names another column; a window"
        " has another length; an upgrade from 3.5 with five or more columns in `dropDuplicates`.",
        spark=_BY_TYPE,
        cures=_ANEW,
    ),
    Code.AGGREGATES_CHANGED: Explanation(
        meaning="The state holds other aggregates in columns of the same types: a sum goes on as a"
        " maximum, or as the sum of another column.",
        causes="An aggregate was replaced, or two were exchanged.",
        spark=_BY_TYPE,
        cures=_ANEW,
    ),
    Code.JOIN_TYPE_CHANGED: Explanation(
        meaning="A join of two streams is of another type.",
        causes="`inner` became `leftOuter`, say.",
        spark=((PREDICTED, "forbids it in its documentation, and never notices"),),
        cures=_ANEW,
    ),
    Code.JOIN_CHANGED: Explanation(
        meaning="A join of two streams has another condition beside its keys, or keeps other"
        " columns of the same types.",
        causes="The interval of a time condition was changed.",
        spark=((PREDICTED, "calls it ill-defined, and never notices"),),
        cures="Accept it if rows removed by the old condition are no loss.",
    ),
    Code.STATE_FIELDS_RENAMED: Explanation(
        meaning="Fields of a state of your own have other names and the same types.",
        causes="The state's schema was edited.",
        spark=_BY_TYPE,
        cures="None is needed if each place still means the same.",
    ),
    Code.STATE_VARIABLES_CHANGED: Explanation(
        meaning="A processor of `transformWithState` has other state variables.",
        causes="A variable was renamed, added or removed. Each is found by its name alone.",
        spark=(("4.0 and later", "starts a variable empty that it does not find, and is silent"),),
        cures="Keep the old name. A new variable needs no cure if empty is right for keys that had"
        " rows before; one that is gone needs none, or `deleteIfExists` in `init` to make room.",
    ),
    Code.TIMEOUT_CHANGED: Explanation(
        meaning="State of your own has another kind of timeout or time mode, or lives for another"
        " time.",
        causes="A change from processing time to event time, say.",
        spark=(
            (PREDICTED, "refuses it where one of both is none: a column more or less"),
            (PREDICTED, "does not notice a change from one clock to the other"),
            ("4.0 and later", "transformWithState refuses another time mode"),
        ),
        cures=_ANEW,
    ),
}
