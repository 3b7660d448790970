"""Spark's logical plan of a streaming query -> its sources, watermarks and operators.

The input is the JSON of the plan, and facts that this JSON omits, by the number of their node: the
options of a source, the delay of a watermark, the types of keys and of stored aggregates.

Spark numbers stateful operators from the sink to the sources, so the topmost one is operator 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.decode.fingerprint import decode_terms
from holdfast.decode.plan_terms import Terms, format_type, is_source, read_expr_id
from holdfast.decode.plan_tree import PlanNode, parse_tree
from holdfast.model.fingerprint import PlanOperator, PlanSource, PlanWatermark, Term
from holdfast.model.json import Json, as_mapping, as_sequence

NodeFacts = Mapping[int, Mapping[str, Json]]

_STATEFUL = {
    "Aggregate": "stateStoreSave",
    "Distinct": "stateStoreSave",
    "Deduplicate": "dedupe",
    "DeduplicateWithinWatermark": "dedupeWithinWatermark",
    "Join": "symmetricHashJoin",
    "GlobalLimit": "globalLimit",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithStateExec",
    "TransformWithStateInPandas": "transformWithStateInPandasExec",
    "TransformWithStateInPySpark": "transformWithStateInPySparkExec",
}
_SESSION = "sessionWindowStateStoreSaveExec"
_OF_PANDAS = frozenset({211, 212})
# These nodes change no row; columns are traced through them.
_TRANSPARENT = frozenset({
    "Project", "SubqueryAlias", "View", "EventTimeWatermark", "ResolvedHint", "Repartition",
    "RepartitionByExpression", "LocalLimit", "AppendColumns",
})  # fmt: skip
_OUTPUTS = (
    "projectList", "aggregateExpressions", "output", "outputAttrs", "outAttrs", "outputAttributes",
)  # fmt: skip
_ADDED = ("generatorOutput", "windowExpressions")
_ONE_SIDED = ("LeftSemi", "LeftAnti")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """The contents of a plan, without sink and settings."""

    sources: tuple[PlanSource, ...]
    watermarks: tuple[PlanWatermark, ...]
    operators: tuple[PlanOperator, ...]
    steps: tuple[str, ...]
    texts: tuple[str, ...]


def decode(listed: Json, facts: NodeFacts, *, append: bool) -> QueryPlan | None:
    """Return the plan, or None if the JSON is not a plan; a limit has state only with `append`."""
    top = parse_tree(listed)
    if top is None:
        return None
    reading = _PlanReader(top, facts, append=append)
    return QueryPlan(
        sources=tuple(reading.sources()),
        watermarks=tuple(reading.watermarks()),
        operators=tuple(reading.operators()),
        steps=tuple(sorted(reading.steps([top]))),
        texts=tuple(reading.terms.text(one) for one in list_output(top)),
    )


def merge_operators(analyzed: QueryPlan, optimized: QueryPlan) -> tuple[PlanOperator, ...]:
    """Return the operators as the user wrote them, with the state that Spark will keep.

    Spark drops unused columns from aggregates and joins, and orders aggregates like the projection
    above them. So a `select` after `agg` decides what the state contains.
    """
    pairs = list(zip(analyzed.operators, optimized.operators, strict=False))
    if len(analyzed.operators) != len(optimized.operators) or any(
        one.kind != other.kind for one, other in pairs
    ):
        return analyzed.operators
    return tuple(replace(one, values=other.values, stored=other.stored) for one, other in pairs)


class _PlanReader:
    def __init__(self, top: PlanNode, facts: NodeFacts, *, append: bool) -> None:
        self._top = top
        self._facts = facts
        self._append = append
        self._streams = _find_streaming(top)
        self.terms = Terms(top)

    def sources(self) -> Iterator[PlanSource]:
        for node in self._top.walk():
            if is_source(node.kind):
                facts = self._facts.get(node.number, {})
                options = as_mapping(facts.get("options"))
                yield PlanSource(
                    name=str(facts.get("name") or ""),
                    kind=str(facts.get("kind") or ""),
                    target=str(facts.get("target") or ""),
                    options={key: str(value) for key, value in sorted(options.items())},
                    columns=tuple(self._term(one) for one in node.expressions("output")),
                )

    def watermarks(self) -> Iterator[PlanWatermark]:
        for node in self._top.walk():
            if node.kind == "EventTimeWatermark" and node.number in self._streams:
                column = " ".join(self.terms.text(one) for one in node.expressions("eventTime"))
                delay = self._facts.get(node.number, {}).get("delay")
                yield PlanWatermark(column=column, delay=str(delay))

    def operators(self) -> Iterator[PlanOperator]:
        for node in self._top.walk():
            if self._is_stateful(node):
                yield self._operator(node)

    def steps(self, nodes: Sequence[PlanNode]) -> Iterator[str]:
        """Yield the steps below some nodes, down to the sources or the next stateful operator."""
        waiting = [*nodes]
        while waiting:
            node = waiting.pop()
            if is_source(node.kind) or self._is_stateful(node):
                continue
            if node.kind not in _TRANSPARENT:
                yield from self._step(node)
            waiting.extend(node.children)

    def _step(self, node: PlanNode) -> Iterator[str]:
        if node.kind == "Filter":
            for one in _split_conjuncts(node.expressions("condition")):
                yield f"filter {self.terms.text(one)}"
            return
        inside = [self.terms.text(one) for one in node.all_expressions()]
        if node.kind == "Expand":
            inside = []  # a sliding window, which its key describes completely
        elif node.kind == "Union":
            inside = [
                f"[{', '.join(self.terms.text(one) for one in list_output(child))}]"
                for child in node.children
            ]
        kinds = [_read_class_name(node.fields.get("joinType"))] if node.kind == "Join" else []
        yield f"{node.kind.lower()} {', '.join([*kinds, *inside])}".strip()

    def _is_stateful(self, node: PlanNode) -> bool:
        if node.kind not in _STATEFUL or node.number not in self._streams:
            return False
        if node.kind == "Join":
            sides = [child.number in self._streams for child in node.children]
            return sides == [True, True]
        return node.kind != "GlobalLimit" or self._append

    def _operator(self, node: PlanNode) -> PlanOperator:
        steps = tuple(sorted(self.steps(node.children)))
        if node.kind == "Join":
            return self._join(node, steps)
        facts = self._facts.get(node.number, {})
        keys, values = self._keys(node), self._values(node) or decode_terms(facts.get("variables"))
        types = [str(one) for one in as_sequence(facts.get("key_types"))]
        if len(types) == len(keys):
            keys = tuple(
                Term(name=one.name, type=known, text=one.text)
                for one, known in zip(keys, types, strict=True)
            )
        return PlanOperator(
            kind=_name_kind(node, keys),
            keys=keys,
            values=values,
            stored=decode_terms(facts.get("stored")),
            details=_read_details(node, self.terms),
            steps=steps,
        )

    def _keys(self, node: PlanNode) -> tuple[Term, ...]:
        if node.kind == "Distinct":
            return tuple(self._term(one) for one in list_output(node.children[0]))
        for field in ("groupingExpressions", "keys", "groupingAttributes"):
            if field in node.fields:
                return tuple(self._term(one) for one in node.expressions(field))
        return ()

    def _values(self, node: PlanNode) -> tuple[Term, ...]:
        """Return the aggregates, each once, in the order in which Spark keeps them."""
        found: dict[str, Term] = {}
        for one in node.expressions("aggregateExpressions"):
            for part in one.walk():
                if part.kind == "AggregateExpression":
                    text = self.terms.text(part)
                    name = str(one.fields.get("name") or text)
                    found.setdefault(text, Term(name=name, type="", text=text))
        return tuple(found.values())

    def _join(self, node: PlanNode, steps: tuple[str, ...]) -> PlanOperator:
        left, right = (frozenset(map(read_expr_id, list_output(child))) for child in node.children)
        keys: list[Term] = []
        rest: list[str] = []
        for one in _split_conjuncts(node.expressions("condition")):
            sides = self._sides(one, left, right)
            if sides is None:
                rest.append(self.terms.text(one))
                continue
            name = str(sides[0].fields.get("name") or "")
            text = " = ".join(self.terms.text(side) for side in sides)
            keys.append(Term(name=name, type=self._type(sides[0]), text=text))
        details = {
            "join type": _read_class_name(node.fields.get("joinType")),
            "condition": "; ".join(rest),
        }
        return PlanOperator(
            kind=_STATEFUL["Join"],
            keys=tuple(keys),
            values=tuple(self._kept(node)),
            stored=(),
            details=details,
            steps=steps,
        )

    def _sides(
        self, one: PlanNode, left: frozenset[int], right: frozenset[int]
    ) -> list[PlanNode] | None:
        """Return both sides of an equality between the inputs of a join, the left input first."""
        if one.kind not in ("EqualTo", "EqualNullSafe") or len(one.children) != 2:  # noqa: PLR2004
            return None
        used = [frozenset(_list_used_columns(side)) for side in one.children]
        if not all(used):
            return None
        for first, second in ((0, 1), (1, 0)):
            if used[first] <= left and used[second] <= right:
                return [one.children[first], one.children[second]]
        return None

    def _kept(self, join: PlanNode) -> Iterator[Term]:
        """Yield the columns of both inputs; in an optimized plan, all of them are in the state."""
        for side, child in zip(("left", "right"), join.children, strict=True):
            for one in list_output(child):
                term = self._term(one)
                yield Term(name=f"{side} {term.name}", type=term.type, text=term.text)

    def _term(self, one: PlanNode) -> Term:
        text = self.terms.text(one)
        return Term(name=str(one.fields.get("name") or text), type=self._type(one), text=text)

    def _type(self, one: PlanNode) -> str:
        told = format_type(one.fields.get("dataType"))
        return told or self.terms.type_of(read_expr_id(one))


def list_output(node: PlanNode) -> tuple[PlanNode, ...]:
    """Return the columns that a node of a plan passes to the node above it."""
    added: list[PlanNode] = []
    while not any(field in node.fields for field in _OUTPUTS):
        added[:0] = [one for field in _ADDED for one in node.expressions(field)]
        if node.kind == "Join" and _read_class_name(node.fields.get("joinType")) not in _ONE_SIDED:
            return (*(one for child in node.children for one in list_output(child)), *added)
        if not node.children:
            return tuple(added)
        node = node.children[0]
    told = next(field for field in _OUTPUTS if field in node.fields)
    return (*node.expressions(told), *added)


def _find_streaming(top: PlanNode) -> set[int]:
    """Return the numbers of the sources and of all nodes above them."""
    found: set[int] = set()
    for node in reversed([*top.walk()]):
        if is_source(node.kind) or any(child.number in found for child in node.children):
            found.add(node.number)
    return found


def _list_used_columns(tree_: PlanNode) -> Iterator[int]:
    for one in tree_.walk():
        if one.kind == "AttributeReference":
            yield read_expr_id(one)


def _split_conjuncts(conditions: Sequence[PlanNode]) -> Iterator[PlanNode]:
    waiting = [*reversed(conditions)]
    while waiting:
        one = waiting.pop()
        if one.kind == "And":
            waiting.extend(reversed(one.children))
        else:
            yield one


def _name_kind(node: PlanNode, keys: Sequence[Term]) -> str:
    if node.kind == "Aggregate" and any(one.name == "session_window" for one in keys):
        return _SESSION
    if node.kind == "TransformWithStateInPySpark":
        told = [one.fields.get("evalType") for one in node.expressions("functionExpr")]
        if set(told) & _OF_PANDAS:
            return _STATEFUL["TransformWithStateInPandas"]
    return _STATEFUL[node.kind]


def _read_details(node: PlanNode, terms: Terms) -> Mapping[str, str]:
    """Return the details of an operator, for example type, timeout and function of its state."""
    found: dict[str, str] = {}
    for field, name in (
        ("timeout", "timeout"),
        ("timeMode", "time mode"),
        ("outputMode", "output mode"),
    ):
        if field in node.fields and node.kind not in ("Aggregate", "Deduplicate"):
            found[name] = _read_class_name(node.fields[field])
    if "stateType" in node.fields:
        found["state"] = format_type(node.fields["stateType"], nulls=True)
    for one in node.expressions("functionExpr"):
        found["function"] = str(one.fields.get("name"))
    if node.kind == "GlobalLimit":
        found["limit"] = " ".join(terms.text(one) for one in node.expressions("limitExpr"))
    return found


def _read_class_name(value: Json) -> str:
    told = as_mapping(value).get("object") or as_mapping(value).get("product-class") or value
    return str(told).rstrip("$").rpartition(".")[2].rpartition("$")[2]
