"""Spark's JSON of a logical plan -> a tree of nodes, each with its expressions as trees.

    [{"class":"….Filter","num-children":1,"condition":[{"class":"….GreaterThan",…},…],"child":0},
     {"class":"….StreamingRelation","num-children":0,"output":[[{"class":"….AttributeReference",…}]]}]

A plan is a list of its nodes, a parent before its children, and so is each expression in it. A
field with a list of lists has several expressions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """A node of a plan or of an expression; `number` is its position in the list."""

    kind: str
    number: int
    fields: Mapping[str, Json]
    children: tuple["PlanNode", ...]

    def expressions(self, field: str) -> tuple["PlanNode", ...]:
        """Return the expressions in a field, one or several."""
        return tuple(_parse_field(self.fields.get(field)))

    def all_expressions(self) -> Iterator["PlanNode"]:
        """Yield every expression directly in this node, in the order of its fields."""
        for value in self.fields.values():
            yield from _parse_field(value)

    def walk(self) -> Iterator["PlanNode"]:
        """Yield this node and every node below it, a parent before its children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


def parse_tree(nodes: Json) -> PlanNode | None:
    """Return the tree of a list of nodes, or None for other JSON."""
    if not _is_node_list(nodes) or not isinstance(nodes, Sequence) or not nodes:
        return None
    # From the end: the children of a node are the nearest later nodes without a parent.
    orphans: list[PlanNode] = []
    for number in reversed(range(len(nodes))):
        node = nodes[number]
        fields: Mapping[str, Json] = node if isinstance(node, Mapping) else {}
        count, name = fields.get("num-children"), fields.get("class")
        taken = min(count, len(orphans)) if isinstance(count, int) else 0
        children = tuple(orphans.pop() for _ in range(taken))
        kind = str(name).rpartition(".")[2].rstrip("$")
        orphans.append(PlanNode(kind=kind, number=number, fields=fields, children=children))
    return orphans[-1]


def _parse_field(value: Json) -> Iterator[PlanNode]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return
    if _is_node_list(value):
        tree = parse_tree(value)
        if tree is not None:
            yield tree
        return
    for item in value:
        yield from _parse_field(item)


def _is_node_list(value: Json) -> bool:
    """Return whether a value is the list of nodes of one tree."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return False
    return isinstance(value[0], Mapping) and "num-children" in value[0]
