"""The exception tree is drawn in its module's docstring, and the drawing is true."""

import re

from holdfast import errors
from holdfast.errors import HoldfastError

_LINE = re.compile(r"^ {4}(?P<lead>[ │├└─]*)(?P<name>[A-Z]\w+)(?: {2,}(?P<words>.*))?$")


def drawn() -> list[tuple[str, str | None, str | None]]:
    """Name, parent and code of every line of the drawing, in its order."""
    above: dict[int, str] = {}
    found = []
    for line in (errors.__doc__ or "").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        depth = len(match["lead"]) // 4
        words = (match["words"] or "").strip()
        code = words if re.fullmatch(r"[A-Z_]+", words) else None
        found.append((match["name"], above.get(depth - 1), code))
        above[depth] = match["name"]
    return found


def real(kind: type[HoldfastError], parent: str | None) -> list[tuple[str, str | None, str | None]]:
    """The same of the classes themselves; one with classes below it is a heading."""
    below = [k for k in kind.__subclasses__() if k.__module__ == errors.__name__]
    own = (kind.__name__, parent, None if below else kind.code)
    return [own, *(line for child in below for line in real(child, kind.__name__))]


def test_the_tree_is_as_drawn() -> None:
    assert drawn() == real(HoldfastError, None)


def test_every_exception_of_the_module_is_in_the_tree() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert classes == {name for name, _, _ in drawn()}
