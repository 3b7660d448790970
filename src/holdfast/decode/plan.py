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
_PANDAS_EVAL_TYPES = frozenset({211, 212})
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


def decode(nodes: Json, facts: NodeFacts, *, append: bool) -> QueryPlan | None:
    """Return the plan, or None if the JSON is not a plan; a limit has state only with `append`."""
    top = parse_tree(nodes)
    if top is None:
        return None
    reader = _PlanReader(top, facts, append=append)
    return QueryPlan(
        sources=tuple(reader.list_sources()),
        watermarks=tuple(reader.list_watermarks()),
        operators=tuple(reader.list_operators()),
        steps=tuple(sorted(reader.list_steps([top]))),
        texts=tuple(reader.terms.format(column) for column in list_output(top)),
    )


def merge_operators(analyzed: QueryPlan, optimized: QueryPlan) -> tuple[PlanOperator, ...]:
    """Return the operators as the user wrote them, with the state that Spark will keep.

    Spark drops unused columns from aggregates and joins, and orders aggregates like the projection
    above them. So a `select` after `agg` decides what the state contains.
    """
    pairs = list(zip(analyzed.operators, optimized.operators, strict=False))
    if len(analyzed.operators) != len(optimized.operators) or any(
        written.kind != kept.kind for written, kept in pairs
    ):
        return analyzed.operators
    return tuple(
        replace(written, values=kept.values, stored=kept.stored) for written, kept in pairs
    )


class _PlanReader:
    def __init__(self, top: PlanNode, facts: NodeFacts, *, append: bool) -> None:
        self._top = top
        self._facts = facts
        self._append = append
        self._streams = _find_streaming(top)
        self.terms = Terms(top)

    def list_sources(self) -> Iterator[PlanSource]:
        for node in self._top.walk():
            if is_source(node.kind):
                facts = self._facts.get(node.number, {})
                options = as_mapping(facts.get("options"))
                yield PlanSource(
                    name=str(facts.get("name") or ""),
                    kind=str(facts.get("kind") or ""),
                    target=str(facts.get("target") or ""),
                    options={key: str(value) for key, value in sorted(options.items())},
                    columns=tuple(self._make_term(column) for column in node.expressions("output")),
                )

    def list_watermarks(self) -> Iterator[PlanWatermark]:
        for node in self._top.walk():
            if node.kind == "EventTimeWatermark" and node.number in self._streams:
                column = " ".join(
                    self.terms.format(expression) for expression in node.expressions("eventTime")
                )
                delay = self._facts.get(node.number, {}).get("delay")
                yield PlanWatermark(column=column, delay=str(delay))

    def list_operators(self) -> Iterator[PlanOperator]:
        for node in self._top.walk():
            if self._is_stateful(node):
                yield self._make_operator(node)

    def list_steps(self, nodes: Sequence[PlanNode]) -> Iterator[str]:
        """Yield the steps below some nodes, down to the sources or the next stateful operator."""
        waiting = [*nodes]
        while waiting:
            node = waiting.pop()
            if is_source(node.kind) or self._is_stateful(node):
                continue
            if node.kind not in _TRANSPARENT:
                yield from self._describe_step(node)
            waiting.extend(node.children)

    def _describe_step(self, node: PlanNode) -> Iterator[str]:
        if node.kind == "Filter":
            for expression in _split_conjuncts(node.expressions("condition")):
                yield f"filter {self.terms.format(expression)}"
            return
        parts = [self.terms.format(expression) for expression in node.all_expressions()]
        if node.kind == "Expand":
            parts = []  # a sliding window, which its key describes completely
        elif node.kind == "Union":
            parts = [
                f"[{', '.join(self.terms.format(column) for column in list_output(child))}]"
                for child in node.children
            ]
        kinds = [_read_class_name(node.fields.get("joinType"))] if node.kind == "Join" else []
        yield f"{node.kind.lower()} {', '.join([*kinds, *parts])}".strip()

    def _is_stateful(self, node: PlanNode) -> bool:
        if node.kind not in _STATEFUL or node.number not in self._streams:
            return False
        if node.kind == "Join":
            sides = [child.number in self._streams for child in node.children]
            return sides == [True, True]
        return node.kind != "GlobalLimit" or self._append

    def _make_operator(self, node: PlanNode) -> PlanOperator:
        steps = tuple(sorted(self.list_steps(node.children)))
        if node.kind == "Join":
            return self._make_join(node, steps)
        facts = self._facts.get(node.number, {})
        keys, values = (
            self._list_keys(node),
            self._list_values(node) or decode_terms(facts.get("variables")),
        )
        types = [str(type_) for type_ in as_sequence(facts.get("key_types"))]
        if len(types) == len(keys):
            keys = tuple(
                Term(name=term.name, type=type_, text=term.text)
                for term, type_ in zip(keys, types, strict=True)
            )
        return PlanOperator(
            kind=_name_kind(node, keys),
            keys=keys,
            values=values,
            stored=decode_terms(facts.get("stored")),
            details=_read_details(node, self.terms),
            steps=steps,
        )

    def _list_keys(self, node: PlanNode) -> tuple[Term, ...]:
        if node.kind == "Distinct":
            return tuple(
                self._make_term(expression) for expression in list_output(node.children[0])
            )
        for field in ("groupingExpressions", "keys", "groupingAttributes"):
            if field in node.fields:
                return tuple(self._make_term(expression) for expression in node.expressions(field))
        return ()

    def _list_values(self, node: PlanNode) -> tuple[Term, ...]:
        """Return the aggregates, each once, in the order in which Spark keeps them."""
        aggregates: dict[str, Term] = {}
        for expression in node.expressions("aggregateExpressions"):
            for part in expression.walk():
                if part.kind == "AggregateExpression":
                    text = self.terms.format(part)
                    name = str(expression.fields.get("name") or text)
                    aggregates.setdefault(text, Term(name=name, type="", text=text))
        return tuple(aggregates.values())

    def _make_join(self, node: PlanNode, steps: tuple[str, ...]) -> PlanOperator:
        left, right = (frozenset(map(read_expr_id, list_output(child))) for child in node.children)
        keys: list[Term] = []
        rest: list[str] = []
        for condition in _split_conjuncts(node.expressions("condition")):
            sides = self._split_sides(condition, left, right)
            if sides is None:
                rest.append(self.terms.format(condition))
                continue
            name = str(sides[0].fields.get("name") or "")
            text = " = ".join(self.terms.format(side) for side in sides)
            keys.append(Term(name=name, type=self._find_type(sides[0]), text=text))
        details = {
            "join type": _read_class_name(node.fields.get("joinType")),
            "condition": "; ".join(rest),
        }
        return PlanOperator(
            kind=_STATEFUL["Join"],
            keys=tuple(keys),
            values=tuple(self._list_kept_columns(node)),
            stored=(),
            details=details,
            steps=steps,
        )

    def _split_sides(
        self, condition: PlanNode, left: frozenset[int], right: frozenset[int]
    ) -> list[PlanNode] | None:
        """Return both sides of an equality between the inputs of a join, the left input first."""
        if condition.kind not in ("EqualTo", "EqualNullSafe") or len(condition.children) != 2:  # noqa: PLR2004
            return None
        used = [frozenset(_list_used_columns(side)) for side in condition.children]
        if not all(used):
            return None
        for first, second in ((0, 1), (1, 0)):
            if used[first] <= left and used[second] <= right:
                return [condition.children[first], condition.children[second]]
        return None

    def _list_kept_columns(self, join: PlanNode) -> Iterator[Term]:
        """Yield the columns of both inputs; in an optimized plan, all of them are in the state."""
        for side, child in zip(("left", "right"), join.children, strict=True):
            for column in list_output(child):
                term = self._make_term(column)
                yield Term(name=f"{side} {term.name}", type=term.type, text=term.text)

    def _make_term(self, expression: PlanNode) -> Term:
        text = self.terms.format(expression)
        return Term(
            name=str(expression.fields.get("name") or text),
            type=self._find_type(expression),
            text=text,
        )

    def _find_type(self, expression: PlanNode) -> str:
        type_ = format_type(expression.fields.get("dataType"))
        return type_ or self.terms.find_type(read_expr_id(expression))


def list_output(node: PlanNode) -> tuple[PlanNode, ...]:
    """Return the columns that a node of a plan passes to the node above it."""
    added: list[PlanNode] = []
    while not any(field in node.fields for field in _OUTPUTS):
        added[:0] = [column for field in _ADDED for column in node.expressions(field)]
        if node.kind == "Join" and _read_class_name(node.fields.get("joinType")) not in _ONE_SIDED:
            return (*(column for child in node.children for column in list_output(child)), *added)
        if not node.children:
            return tuple(added)
        node = node.children[0]
    output = next(field for field in _OUTPUTS if field in node.fields)
    return (*node.expressions(output), *added)


def _find_streaming(top: PlanNode) -> set[int]:
    """Return the numbers of the sources and of all nodes above them."""
    streaming: set[int] = set()
    for node in reversed([*top.walk()]):
        if is_source(node.kind) or any(child.number in streaming for child in node.children):
            streaming.add(node.number)
    return streaming


def _list_used_columns(expression: PlanNode) -> Iterator[int]:
    for node in expression.walk():
        if node.kind == "AttributeReference":
            yield read_expr_id(node)


def _split_conjuncts(conditions: Sequence[PlanNode]) -> Iterator[PlanNode]:
    waiting = [*reversed(conditions)]
    while waiting:
        condition = waiting.pop()
        if condition.kind == "And":
            waiting.extend(reversed(condition.children))
        else:
            yield condition


def _name_kind(node: PlanNode, keys: Sequence[Term]) -> str:
    if node.kind == "Aggregate" and any(key.name == "session_window" for key in keys):
        return _SESSION
    if node.kind == "TransformWithStateInPySpark":
        eval_types = [
            function.fields.get("evalType") for function in node.expressions("functionExpr")
        ]
        if set(eval_types) & _PANDAS_EVAL_TYPES:
            return _STATEFUL["TransformWithStateInPandas"]
    return _STATEFUL[node.kind]


def _read_details(node: PlanNode, terms: Terms) -> Mapping[str, str]:
    """Return the details of an operator, for example type, timeout and function of its state."""
    details: dict[str, str] = {}
    for field, name in (
        ("timeout", "timeout"),
        ("timeMode", "time mode"),
        ("outputMode", "output mode"),
    ):
        if field in node.fields and node.kind not in ("Aggregate", "Deduplicate"):
            details[name] = _read_class_name(node.fields[field])
    if "stateType" in node.fields:
        details["state"] = format_type(node.fields["stateType"], nulls=True)
    for expression in node.expressions("functionExpr"):
        details["function"] = str(expression.fields.get("name"))
    if node.kind == "GlobalLimit":
        details["limit"] = " ".join(
            terms.format(expression) for expression in node.expressions("limitExpr")
        )
    return details


def _read_class_name(value: Json) -> str:
    name = as_mapping(value).get("object") or as_mapping(value).get("product-class") or value
    return str(name).rstrip("$").rpartition(".")[2].rpartition("$")[2]
