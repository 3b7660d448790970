"""Stage 3: is state of the user's own making the same?

State of `applyInPandasWithState` has one type. Of `transformWithState` these are the modes; what
it keeps is for `variables`.
"""

from collections.abc import Iterator, Mapping

from holdfast.diagnose.changes import difference, operators
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.finding import Code, Finding, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator
from holdfast.model.json import as_mapping
from holdfast.model.state import OperatorEvidence

_NO_TIMEOUT = "NoTimeout"
_MODES = {"time mode": "timeMode", "output mode": "outputMode"}


def evaluate(change: QueryChange) -> Iterator[Finding]:
    """State, timeouts and modes."""
    for number, was, now in operators.pair_unchanged(change):
        yield from _compare_state(number, difference.name_record(change), was, now)
    for seen in change.evidence.operators:
        if seen.operator < len(change.new.operators):
            yield from _compare_modes(seen, change.new.operators[seen.operator])


def _compare_state(
    number: int, where: str, was: PlanOperator, now: PlanOperator
) -> Iterator[Finding]:
    old, new = was.details.get("state", ""), now.details.get("state", "")
    what = f"the state of operator {number}"
    yield from difference.compare_types(what, where, old, new, f"{TAKE_BACK}, or {NEW_CHECKPOINT}")
    before, after = was.details.get("timeout", ""), now.details.get("timeout", "")
    if before != after:
        blocks = _NO_TIMEOUT in (before, after)
        yield difference.make_finding(
            Code.TIMEOUT_CHANGED,
            Severity.BLOCKS if blocks else Severity.LOSES,
            f"Operator {number} has another kind of timeout: "
            + (
                "the state has a column for it or not, and Spark refuses it."
                if blocks
                else "what is in the state is a time of the other clock."
            ),
            where=where,
            was=before,
            now=after,
            remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
        )


def _compare_modes(seen: OperatorEvidence, now: PlanOperator) -> Iterator[Finding]:
    """What Spark itself compares of transformWithState."""
    told: Mapping[str, object] = as_mapping(seen.properties)
    for name, key in _MODES.items():
        was, new = str(told.get(key, "")), now.details.get(name, "")
        if was and new and was.lower() != new.lower():
            yield difference.make_finding(
                Code.OUTPUT_MODE_CHANGED if name == "output mode" else Code.TIMEOUT_CHANGED,
                Severity.BLOCKS,
                f"Operator {seen.operator} has another {name}: Spark refuses the state.",
                where=f"state/{seen.operator}/_metadata",
                was=was,
                now=new,
                remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
            )
