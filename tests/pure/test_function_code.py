"""The dump of a Python function differs if the function changed."""

from collections.abc import Callable
from functools import partial

from holdfast.run.query import function_code


def told(called: object) -> list[str]:
    return list(function_code.dump(called, set()))


class Times:
    """A function that is a method."""

    def two(self, v: int) -> int:
        """Twice."""
        return v * 2

    def three(self, v: int) -> int:
        """Thrice."""
        return v * 3


def closing_over(value: object) -> Callable[[int], object]:
    return lambda v: (v, value)


def test_another_method_is_told_apart() -> None:
    assert told(Times().two) == told(Times().two) != told(Times().three)


def test_another_value_inside_is_told_apart() -> None:
    for was, now in ((1, 2), ([1], [2]), ({"a": 1}, {"a": 2}), (Times().two, Times().three)):
        assert told(closing_over(was)) == told(closing_over(was)) != told(closing_over(now))


def test_what_is_no_function_tells_nothing() -> None:
    assert told(partial(max, 1)) == []
