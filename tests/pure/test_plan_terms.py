"""Terms of a plan: short texts that tell every change, however long or deep an expression is."""

from holdfast.decode import plan
from holdfast.model.json import Json

MANY = 3_000
STEPS = 30
SOURCE = "streaming.StreamingRelation"


def node(kind: str, children: int, **fields: Json) -> Json:
    return {"class": f"catalyst.{kind}", "num-children": children, **fields}


def column(number: int, name: str = "x") -> Json:
    return node("AttributeReference", 0, name=name, dataType="long", exprId={"id": number})


def alias(number: int, *made: Json) -> list[Json]:
    return [node("Alias", 1, name="x", exprId={"id": number}), *made]


def project(*columns: list[Json]) -> Json:
    return node("Project", 1, projectList=list(columns))


def source(*columns: Json) -> Json:
    return node(SOURCE, 0, output=[[one] for one in columns])


def literal(value: int) -> Json:
    return node("Literal", 0, value=value)


def texts(*nodes: Json) -> tuple[str, ...]:
    found = plan.decode(list(nodes), {}, append=True)
    assert found is not None
    return found.texts


def doubled(number: int) -> Json:
    """`withColumn("x", col("x") + col("x"))`."""
    before = column(number - 1)
    return project(alias(number, node("Add", 2), before, before))


def test_a_column_that_is_added_to_itself_again_and_again_has_a_short_text() -> None:
    steps = [doubled(number) for number in range(STEPS, 0, -1)]
    (whole,) = texts(*steps, source(column(0)))
    assert len(whole) < 2_100
    assert texts(doubled(1), source(column(0))) == ("(x + x)",)


def listed(*values: int) -> tuple[str, ...]:
    """`coalesce(x, 0, 1, …)`, with one argument after the other."""
    call = node("Coalesce", len(values) + 1)
    made = alias(1, call, column(0), *(literal(value) for value in values))
    return texts(project(made), source(column(0)))


def test_a_change_at_the_end_of_a_long_expression_is_told() -> None:
    assert listed(*range(MANY)) == listed(*range(MANY))
    assert listed(*range(MANY)) != listed(*range(MANY - 1), -1)


def summed(first: int) -> tuple[str, ...]:
    """`x + first + 1 + 1 + …`, of which Spark makes a tree that leans to the left."""
    sums = [node("Add", 2)] * MANY
    ones = [literal(1)] * (MANY - 1)
    made = alias(1, *sums, column(0), literal(first), *ones)
    return texts(project(made), source(column(0)))


def test_a_change_at_the_bottom_of_a_deep_expression_is_told() -> None:
    assert summed(1) == summed(1)
    assert summed(1) != summed(2)


def nested(innermost: int) -> tuple[str, ...]:
    """`abs(abs(abs(…)))`."""
    made = alias(1, *[node("Abs", 1)] * MANY, literal(innermost))
    return texts(project(made), source(column(0)))


def test_a_change_inside_of_many_calls_is_told() -> None:
    assert nested(1) == nested(1)
    assert nested(1) != nested(2)


def chained(first: int) -> tuple[str, ...]:
    """`withColumn("x", col("x") + …)` in a loop: a plan as deep as the loop is long."""
    steps = [
        project(alias(number, node("Add", 2), column(number - 1), literal(first * (number == 1))))
        for number in range(MANY, 0, -1)
    ]
    return texts(*steps, source(column(0)))


def test_a_change_at_the_bottom_of_a_deep_plan_is_told() -> None:
    assert chained(1) == chained(1)
    assert chained(1) != chained(2)


def slid(below: Json) -> tuple[str, ...]:
    """A sliding window over a column that a projection below it makes."""
    expand = node(
        "Expand", 1, projections=[[[column(2)], [column(2)]]], output=[[column(3)], [column(4)]]
    )
    return texts(expand, project(alias(2, below)), source(column(0, "a"), column(1, "b")))


def test_a_sliding_window_is_told_by_the_column_that_it_is_made_of() -> None:
    assert slid(column(0, "a")) == ("a", "a")
    assert slid(column(1, "b")) == ("b", "b")
