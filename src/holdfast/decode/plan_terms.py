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
_IGNORED_FIELDS = frozenset({
    "class", "num-children", "exprId", "resultId", "qualifier", "metadata", "explicitMetadata",
    "nonInheritableMetadataKeys", "nullable", "evalContext", "evalMode", "mode", "timeZoneId",
    "child", "left", "right", "children", "func", "numExpressions", "initMsg", "dataType",
    "udfDeterministic", "isDistinct", "name", "functionName", "origin", "failOnError",
    "replacement",
})  # fmt: skip
_TRANSPARENT = frozenset({
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
        self._definitions: dict[int, Sequence[PlanNode]] = {}
        self._types: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        sources = [node for node in plan.walk() if is_source(node.kind)]
        for index, source in enumerate(sources):
            for column in source.expressions("output"):
                prefix = f"source{index}." if len(sources) > 1 else ""
                self._texts[read_expr_id(column)] = f"{prefix}{column.fields.get('name')}"
        # From the sources up, so that the columns of an expression already have their texts.
        for node in reversed([*plan.walk()]):
            self._learn(node)
        for number in self._definitions:
            self._format_column(number, "", 0)

    def _learn(self, node: PlanNode) -> None:
        for top in node.all_expressions():
            for expression in top.walk():
                if expression.kind == "Alias" and expression.children:
                    self._definitions.setdefault(read_expr_id(expression), expression.children[:1])
                elif expression.kind == "AttributeReference":
                    self._types.setdefault(
                        read_expr_id(expression), format_type(expression.fields.get("dataType"))
                    )
        if node.kind == "Expand":
            self._learn_expanded(node)
        results = node.expressions("resultAttrs")
        for column, definition in zip(results, node.expressions("udfs"), strict=False):
            self._definitions.setdefault(read_expr_id(column), (definition,))

    def _learn_expanded(self, node: PlanNode) -> None:
        """Learn the outputs of an Expand, a sliding window: one expression per copy of a row."""
        rows = as_sequence(node.fields.get("projections"))
        projections = [PlanNode(kind="x", number=0, fields={"x": row}, children=()) for row in rows]
        cells = [projection.expressions("x") for projection in projections]
        for index, column in enumerate(node.expressions("output")):
            copies = [row[index] for row in cells if index < len(row)]
            self._definitions.setdefault(read_expr_id(column), copies)

    def find_type(self, number: int) -> str:
        """Return the type of a column, or an empty text if no expression refers to it."""
        return self._types.get(number, "")

    def format(self, tree: PlanNode, depth: int = 0) -> str:
        """Return an expression in terms of source columns."""
        if depth > _DEEPEST:
            return _shorten(" ".join(map(self._format_alone, tree.walk())))
        if tree.kind in _TRANSPARENT and tree.children:
            return self.format(tree.children[0], depth + 1)
        return _shorten(self._format(tree, depth))

    def _format_alone(self, tree: PlanNode) -> str:
        """Return a node without its children, for an expression that is nested too deep."""
        if tree.kind == "AttributeReference":
            return self._texts.get(read_expr_id(tree), str(tree.fields.get("name")))
        return " ".join([tree.kind, *_list_own_fields(tree), str(tree.fields.get("value", ""))])

    def _format(self, tree: PlanNode, depth: int) -> str:
        if tree.kind in _SYMBOLS and len(tree.children) == 2:  # noqa: PLR2004  two sides
            left, right = (self.format(child, depth + 1) for child in tree.children)
            return f"({left} {_SYMBOLS[tree.kind]} {right})"
        match tree.kind:
            case "AttributeReference":
                text = self._format_column(read_expr_id(tree), str(tree.fields.get("name")), depth)
            case "Literal":
                text = str(tree.fields.get("value"))
            case "AggregateExpression" if tree.children:
                text = self._format_aggregate(tree, depth)
            case "Cast" if tree.children:
                inner = self.format(tree.children[0], depth + 1)
                is_literal = tree.children[0].kind == "Literal"
                type_ = format_type(tree.fields.get("dataType"))
                text = inner if is_literal else f"cast({inner} as {type_})"
            case _:
                window = tree.kind == "CreateNamedStruct" and _is_window(tree)
                text = (
                    self._format_window(tree, depth) if window else self._format_call(tree, depth)
                )
        return text

    def _format_column(self, number: int, name: str, depth: int) -> str:
        if number not in self._texts and number in self._definitions:
            # The name first, so that a column that refers to itself does not recurse forever.
            self._texts[number] = name
            parts = (self.format(definition, depth + 1) for definition in self._definitions[number])
            self._texts[number] = "; ".join(dict.fromkeys(parts))
        return self._texts.get(number, name)

    def _format_aggregate(self, tree: PlanNode, depth: int) -> str:
        distinct = "distinct " if tree.fields.get("isDistinct") is True else ""
        function, *condition = (self.format(child, depth + 1) for child in tree.children)
        return f"{distinct}{function}{f' where {condition[0]}' if condition else ''}"

    def _format_call(self, tree: PlanNode, depth: int) -> str:
        name = tree.kind
        if name == "GetStructField" and tree.children:
            return f"{self.format(tree.children[0], depth + 1)}.{_name_field(tree)}"
        if name in ("PythonUDF", "PythonUDAF", "ScalaUDF", "StaticInvoke", "Invoke"):
            name = str(tree.fields.get("name") or tree.fields.get("functionName") or name)
        else:
            name = _CAMEL.sub("_", name).lower()
            name = _RENAMED.get(name, name)
        arguments = [self.format(child, depth + 1) for child in tree.children]
        return f"{name}({', '.join([*arguments, *_list_own_fields(tree)])})"

    def _format_window(self, tree: PlanNode, depth: int) -> str:
        """Return `window(t, 300 s)` for a window, which in a plan is half a page of arithmetic."""
        columns: dict[str, None] = {}
        lengths: dict[str, None] = {}
        for node in tree.walk():
            if node.kind == "AttributeReference":
                columns[self.format(node, depth + 1)] = None
            elif node.kind == "Literal" and node.fields.get("value") not in ("start", "end"):
                lengths[_format_length(node)] = None
        arguments = [length for length in lengths if length not in ("0", "")]
        return f"window({', '.join([*columns, *arguments])})"


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
        if key not in _IGNORED_FIELDS and _format_scalar(value) and not isinstance(value, int)
    ]


def _shorten(text: str) -> str:
    """Shorten a long text to its beginning and a digest, which still differs if the text does."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _name_field(tree: PlanNode) -> str:
    """Return the name of the field that is read from a struct, or its position without a type."""
    position, parent = tree.fields.get("ordinal"), tree.children[0].fields
    fields = as_mapping(parent.get("dataType") or parent.get("schema")).get("fields")
    if isinstance(fields, list | tuple) and isinstance(position, int) and position < len(fields):
        return str(as_mapping(fields[position]).get("name"))
    return str(position)


def _is_window(tree: PlanNode) -> bool:
    names = [node.fields.get("value") for node in tree.children if node.kind == "Literal"]
    times = (node.kind == "PreciseTimestampConversion" for node in tree.walk())
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
    name = as_mapping(value).get("object")
    return str(name).rpartition(".")[2].rstrip("$") if isinstance(name, str) else ""


_SIMPLE = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def format_type(value: Json, *, nulls: bool = False) -> str:
    """Return a data type in SQL, from Spark's JSON of it; `nulls` adds `not null`."""
    if isinstance(value, str):
        return _SIMPLE.get(value, value)
    fields = as_mapping(value)

    def format_inner(type_: str, nullable: str, parent: Mapping[str, Json]) -> str:
        is_required = nulls and parent.get(nullable) is False
        return f"{format_type(parent.get(type_), nulls=nulls)}{' not null' if is_required else ''}"

    match fields.get("type"):
        case "array":
            return f"array<{format_inner('elementType', 'containsNull', fields)}>"
        case "map":
            key = format_type(fields.get("keyType"), nulls=nulls)
            return f"map<{key},{format_inner('valueType', 'valueContainsNull', fields)}>"
        case "struct":
            members = map(as_mapping, as_sequence(fields.get("fields")))
            inner = (
                f"{field.get('name')}:{format_inner('type', 'nullable', field)}"
                for field in members
            )
            return f"struct<{','.join(inner)}>"
        case _:
            return str(fields.get("sqlType") or fields.get("type") or "")
