"""Terms of a plan: texts that stay short, whatever a query makes of its columns."""

from holdfast.decode import plan
from holdfast.model.json import Json

STEPS = 30


def column(number: int) -> Json:
    return {
        "class": "catalyst.expressions.AttributeReference",
        "num-children": 0,
        "name": "x",
        "dataType": "long",
        "exprId": {"id": number},
    }


def doubled(number: int) -> Json:
    """`withColumn("x", col("x") + col("x"))`."""
    made: Json = {
        "class": "catalyst.expressions.Alias",
        "num-children": 1,
        "name": "x",
        "exprId": {"id": number},
    }
    total: Json = {"class": "catalyst.expressions.Add", "num-children": 2}
    before = column(number - 1)
    return {
        "class": "catalyst.plans.logical.Project",
        "num-children": 1,
        "projectList": [[made, total, before, before]],
    }


def test_a_column_that_is_added_to_itself_again_and_again_has_a_short_text() -> None:
    source: Json = {
        "class": "streaming.StreamingRelation",
        "num-children": 0,
        "output": [[column(0)]],
    }
    steps = [doubled(number) for number in range(STEPS, 0, -1)]
    found = plan.decoded([*steps, source], {}, append=True)
    assert found is not None
    assert [len(text) for text in found.texts] == [20_000]
    one = plan.decoded([doubled(1), source], {}, append=True)
    assert one is not None
    assert one.texts == ("(x + x)",)
