"""Any JSON in the place of a plan gives a value, never an exception."""

from hypothesis import given, settings
from hypothesis import strategies as some

from holdfast.decode import fingerprint, plan
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.json import Json

_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
_KINDS = some.sampled_from([
    "Project", "Aggregate", "Join", "Union", "Filter", "Deduplicate", "Expand", "GlobalLimit",
    "EventTimeWatermark", "StreamingRelation", "Alias", "AttributeReference", "Literal", "Cast",
    "AggregateExpression", "EqualTo", "And", "CreateNamedStruct", "Generate", "Distinct",
    "TransformWithStateInPySpark", "FlatMapGroupsInPandasWithState",
])  # fmt: skip
_FIELDS = (
    "output", "projectList", "groupingExpressions", "aggregateExpressions", "condition", "keys",
    "projections", "eventTime", "functionExpr", "joinType", "exprId", "dataType", "name", "value",
    "resultAttrs", "udfs", "stateType", "timeout",
)  # fmt: skip


def _nodes(inner: some.SearchStrategy[Json]) -> some.SearchStrategy[list[dict[str, object]]]:
    fields = some.dictionaries(
        some.sampled_from(_FIELDS), inner | some.lists(inner, max_size=2), max_size=5
    )
    node = some.builds(
        lambda kind, children, more: {"class": kind, "num-children": children, **more},
        _KINDS,
        some.integers(0, 2),
        fields,
    )
    return some.lists(node, min_size=1, max_size=4)


_PLANS = _nodes(some.one_of(_JSON, _nodes(_JSON)))


@settings(max_examples=30)
@given(_JSON)
def test_any_json_is_a_fingerprint_or_none(value: Json) -> None:
    assert isinstance(fingerprint.decode({"format": 1, "sources": value}), Fingerprint)
    source: Json = {"identity": value}
    assert isinstance(fingerprint.decode({"format": 1, "sources": [source]}), Fingerprint)
    assert isinstance(fingerprint.decode(value), Fingerprint | Unknown)


@settings(max_examples=30)
@given(_PLANS, _JSON)
def test_any_json_is_a_plan_or_none(listed: list[dict[str, object]], fact: Json) -> None:
    facts = {number: {"options": fact, "stored": fact, "key_types": fact} for number in range(4)}
    found = plan.decode(listed, facts, append=True)  # type: ignore[arg-type]
    assert isinstance(found, plan.QueryPlan)
    assert plan.merge_operators(found, found) == found.operators
