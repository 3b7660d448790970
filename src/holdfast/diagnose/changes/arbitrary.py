"""Is user-defined state the same?

The state of `applyInPandasWithState` has one type. For `transformWithState`, this file compares the
modes; `variables.py` compares the state variables.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference, operators
from holdfast.diagnose.changes.difference import UNDO_OR_START_OVER
from holdfast.model.finding import Code, Finding, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator
from holdfast.model.json import as_mapping
from holdfast.model.state import OperatorEvidence

_NO_TIMEOUT = "NoTimeout"
_MODES = {"time mode": "timeMode", "output mode": "outputMode"}


def evaluate(change: QueryChange) -> Iterator[Finding]:
    """Compare state, timeouts and modes."""
    for number, was, now in operators.pair_unchanged(change):
        yield from _compare_state(number, difference.name_record(change), was, now)
    for operator in change.evidence.operators:
        if operator.operator < len(change.new.operators):
            yield from _compare_modes(operator, change.new.operators[operator.operator])


def _compare_state(
    number: int, where: str, was: PlanOperator, now: PlanOperator
) -> Iterator[Finding]:
    old, new = was.details.get("state", ""), now.details.get("state", "")
    what = f"the state of operator {number}"
    yield from difference.compare_types(what, where, old, new, UNDO_OR_START_OVER)
    before, after = was.details.get("timeout", ""), now.details.get("timeout", "")
    if before != after:
        blocks = _NO_TIMEOUT in (before, after)
        yield difference.make_finding(
            Code.TIMEOUT_CHANGED,
            Severity.BLOCKS if blocks else Severity.LOSES,
            f"Spark will refuse the state: operator {number} gained or lost its timeout, which has"
            " a column in the state."
            if blocks
            else f"Operator {number} will misread its timeouts: the kind of timeout changed, and"
            " the state contains times of the other clock.",
            where=where,
            was=before,
            now=after,
            remedies=(UNDO_OR_START_OVER,),
        )


def _compare_modes(operator: OperatorEvidence, now: PlanOperator) -> Iterator[Finding]:
    """Compare the modes of transformWithState, as Spark itself does."""
    properties = as_mapping(operator.properties)
    for name, key in _MODES.items():
        was, new = str(properties.get(key, "")), now.details.get(name, "")
        if was and new and was.lower() != new.lower():
            yield difference.make_finding(
                Code.OUTPUT_MODE_CHANGED if name == "output mode" else Code.TIMEOUT_CHANGED,
                Severity.BLOCKS,
                f"Spark will refuse the state: the {name} of operator {operator.operator} changed.",
                where=f"state/{operator.operator}/_metadata",
                was=was,
                now=new,
                remedies=(UNDO_OR_START_OVER,),
            )
