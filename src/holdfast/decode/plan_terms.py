"""Expressions of a plan -> terms: texts in terms of source columns, equal for equal plans.

Spark gives every column a new number at every start. A term replaces each number by its meaning: a
source column by its name, and a computed column by the expression that computes it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

from holdfast.decode.plan_tree import PlanNode
from holdfast.model.json import Json, as_mapping, as_sequence

_SYMBOLS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=",
    "GreaterThan": ">", "GreaterThanOrEqual": ">=", "And": "and", "Or": "or", "Add": "+",
    "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%",
}  # fmt: skip
# Fields that do not affect the value of an expression.
_SILENT = frozenset({
    "class", "num-children", "exprId", "resultId", "qualifier", "metadata", "explicitMetadata",
    "nonInheritableMetadataKeys", "nullable", "evalContext", "evalMode", "mode", "timeZoneId",
    "child", "left", "right", "children", "func", "numExpressions", "initMsg", "dataType",
    "udfDeterministic", "isDistinct", "name", "functionName", "origin", "failOnError",
    "replacement",
})  # fmt: skip
_THROUGH = frozenset({
    "Alias", "KnownNullable", "KnownNotNull", "PreciseTimestampConversion", "PromotePrecision",
    "CheckOverflow", "TempResolvedColumn",
})  # fmt: skip
_MICROSECONDS = 1_000_000
# Names in Spark 4.0 -> names in later versions.
_RENAMED = {"time_add": "timestamp_add_interval"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DEEPEST = 150
_LONGEST = 2_000


class Terms:
    """The meaning of each column of a plan."""

    def __init__(self, plan: PlanNode) -> None:
        self._made: dict[int, Sequence[PlanNode]] = {}
        self._types: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        sources = [one for one in plan.walk() if is_source(one.kind)]
        for index, source in enumerate(sources):
            for column in source.expressions("output"):
                of = f"source{index}." if len(sources) > 1 else ""
                self._texts[read_expr_id(column)] = f"{of}{column.fields.get('name')}"
        # From the sources up, so that the columns of an expression already have their texts.
        for node in reversed([*plan.walk()]):
            self._learn(node)
        for number in self._made:
            self._column(number, "", 0)

    def _learn(self, node: PlanNode) -> None:
        for top in node.all_expressions():
            for one in top.walk():
                if one.kind == "Alias" and one.children:
                    self._made.setdefault(read_expr_id(one), one.children[:1])
                elif one.kind == "AttributeReference":
                    self._types.setdefault(
                        read_expr_id(one), format_type(one.fields.get("dataType"))
                    )
        if node.kind == "Expand":
            self._learn_expanded(node)
        results = node.expressions("resultAttrs")
        for column, made in zip(results, node.expressions("udfs"), strict=False):
            self._made.setdefault(read_expr_id(column), (made,))

    def _learn_expanded(self, node: PlanNode) -> None:
        """Learn the outputs of an Expand, a sliding window: one expression per copy of a row."""
        rows = as_sequence(node.fields.get("projections"))
        made = [PlanNode(kind="x", number=0, fields={"x": row}, children=()) for row in rows]
        cells = [one.expressions("x") for one in made]
        for index, column in enumerate(node.expressions("output")):
            copies = [row[index] for row in cells if index < len(row)]
            self._made.setdefault(read_expr_id(column), copies)

    def type_of(self, number: int) -> str:
        """Return the type of a column, or an empty text if no expression refers to it."""
        return self._types.get(number, "")

    def text(self, tree: PlanNode, depth: int = 0) -> str:
        """Return an expression in terms of source columns."""
        if depth > _DEEPEST:
            return _shorten(" ".join(map(self._alone, tree.walk())))
        if tree.kind in _THROUGH and tree.children:
            return self.text(tree.children[0], depth + 1)
        return _shorten(self._told(tree, depth))

    def _alone(self, tree: PlanNode) -> str:
        """Return a node without its children, for an expression that is nested too deep."""
        if tree.kind == "AttributeReference":
            return self._texts.get(read_expr_id(tree), str(tree.fields.get("name")))
        return " ".join([tree.kind, *_list_own_fields(tree), str(tree.fields.get("value", ""))])

    def _told(self, tree: PlanNode, depth: int) -> str:
        if tree.kind in _SYMBOLS and len(tree.children) == 2:  # noqa: PLR2004  two sides
            left, right = (self.text(one, depth + 1) for one in tree.children)
            return f"({left} {_SYMBOLS[tree.kind]} {right})"
        match tree.kind:
            case "AttributeReference":
                found = self._column(read_expr_id(tree), str(tree.fields.get("name")), depth)
            case "Literal":
                found = str(tree.fields.get("value"))
            case "AggregateExpression" if tree.children:
                found = self._aggregate(tree, depth)
            case "Cast" if tree.children:
                inner = self.text(tree.children[0], depth + 1)
                known = tree.children[0].kind == "Literal"
                type_ = format_type(tree.fields.get("dataType"))
                found = inner if known else f"cast({inner} as {type_})"
            case _:
                window = tree.kind == "CreateNamedStruct" and _is_window(tree)
                found = self._window(tree, depth) if window else self._call(tree, depth)
        return found

    def _column(self, number: int, name: str, depth: int) -> str:
        if number not in self._texts and number in self._made:
            # The name first, so that a column that refers to itself does not recurse forever.
            self._texts[number] = name
            made = (self.text(one, depth + 1) for one in self._made[number])
            self._texts[number] = "; ".join(dict.fromkeys(made))
        return self._texts.get(number, name)

    def _aggregate(self, tree: PlanNode, depth: int) -> str:
        distinct = "distinct " if tree.fields.get("isDistinct") is True else ""
        function, *only = (self.text(one, depth + 1) for one in tree.children)
        return f"{distinct}{function}{f' where {only[0]}' if only else ''}"

    def _call(self, tree: PlanNode, depth: int) -> str:
        name = tree.kind
        if name == "GetStructField" and tree.children:
            return f"{self.text(tree.children[0], depth + 1)}.{_name_field(tree)}"
        if name in ("PythonUDF", "PythonUDAF", "ScalaUDF", "StaticInvoke", "Invoke"):
            name = str(tree.fields.get("name") or tree.fields.get("functionName") or name)
        else:
            name = _CAMEL.sub("_", name).lower()
            name = _RENAMED.get(name, name)
        inside = [self.text(one, depth + 1) for one in tree.children]
        return f"{name}({', '.join([*inside, *_list_own_fields(tree)])})"

    def _window(self, tree: PlanNode, depth: int) -> str:
        """Return `window(t, 300 s)` for a window, which in a plan is half a page of arithmetic."""
        columns: dict[str, None] = {}
        lengths: dict[str, None] = {}
        for one in tree.walk():
            if one.kind == "AttributeReference":
                columns[self.text(one, depth + 1)] = None
            elif one.kind == "Literal" and one.fields.get("value") not in ("start", "end"):
                lengths[_format_length(one)] = None
        shown = [one for one in lengths if one not in ("0", "")]
        return f"window({', '.join([*columns, *shown])})"


def read_expr_id(tree: PlanNode) -> int:
    """Return the number of a column."""
    number = as_mapping(tree.fields.get("exprId")).get("id")
    return number if isinstance(number, int) else -1


def is_source(kind: str) -> bool:
    """Return whether nodes of this kind are streaming sources."""
    return kind.startswith("Streaming") and "Relation" in kind


def _list_own_fields(tree: PlanNode) -> list[str]:
    """Return the fields of an expression that matter, besides its kind and its children."""
    return [
        f"{key} {_format_scalar(value)}"
        for key, value in tree.fields.items()
        if key not in _SILENT and _format_scalar(value) and not isinstance(value, int)
    ]


def _shorten(text: str) -> str:
    """Shorten a long text to its beginning and a digest, which still differs if the text does."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _name_field(tree: PlanNode) -> str:
    """Return the name of the field that is read from a struct, or its position without a type."""
    place, inner = tree.fields.get("ordinal"), tree.children[0].fields
    told = as_mapping(inner.get("dataType") or inner.get("schema")).get("fields")
    if isinstance(told, list | tuple) and isinstance(place, int) and place < len(told):
        return str(as_mapping(told[place]).get("name"))
    return str(place)


def _is_window(tree: PlanNode) -> bool:
    names = [one.fields.get("value") for one in tree.children if one.kind == "Literal"]
    times = (one.kind == "PreciseTimestampConversion" for one in tree.walk())
    return names[:2] == ["start", "end"] and any(times)


def _format_length(tree: PlanNode) -> str:
    value, kind = str(tree.fields.get("value")), tree.fields.get("dataType")
    if kind in ("long", "bigint") and value.lstrip("-").isdecimal() and int(value) != 0:
        return f"{int(value) / _MICROSECONDS:g} s"
    return value


def _format_scalar(value: Json) -> str:
    """Return a simple field as text; empty for an expression or for nothing of interest."""
    if isinstance(value, str | bool | int | float):
        return str(value)
    told = as_mapping(value).get("object")
    return str(told).rpartition(".")[2].rstrip("$") if isinstance(told, str) else ""


_SIMPLE = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def format_type(value: Json, *, nulls: bool = False) -> str:
    """Return a data type in SQL, from Spark's JSON of it; `nulls` adds `not null`."""
    if isinstance(value, str):
        return _SIMPLE.get(value, value)
    told = as_mapping(value)

    def inside(type_: str, nullable: str, of: Mapping[str, Json]) -> str:
        never = nulls and of.get(nullable) is False
        return f"{format_type(of.get(type_), nulls=nulls)}{' not null' if never else ''}"

    match told.get("type"):
        case "array":
            return f"array<{inside('elementType', 'containsNull', told)}>"
        case "map":
            key = format_type(told.get("keyType"), nulls=nulls)
            return f"map<{key},{inside('valueType', 'valueContainsNull', told)}>"
        case "struct":
            fields = map(as_mapping, as_sequence(told.get("fields")))
            inner = (f"{one.get('name')}:{inside('type', 'nullable', one)}" for one in fields)
            return f"struct<{','.join(inner)}>"
        case _:
            return str(told.get("sqlType") or told.get("type") or "")
