"""Python functions -> a digest of their code, which changes if a function does something else.

The digest covers the code of a function, its defaults and the values that it closes over. It does
not cover functions that it calls by name.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType

_LENGTH = 16


def digest(functions: Iterable[object]) -> str:
    """Return one digest for all functions; empty if none of them is a Python function.

    Nothing is known about other callables, so they must not look unchanged.
    """
    dumped: set[int] = set()
    code = "\n".join(line for function in functions for line in dump(function, dumped))
    return hashlib.sha256(code.encode()).hexdigest()[:_LENGTH] if code else ""


def dump(value: object, dumped: set[int]) -> Iterator[str]:
    """Yield lines for the code of a function, or for a value that it closes over.

    `dumped` contains the ids of objects that are done: a function can refer to itself.
    """
    if isinstance(value, str | int | float | bool | None):
        yield repr(value)
        return
    if id(value) in dumped:
        return
    dumped.add(id(value))
    if isinstance(value, FunctionType):
        yield from _dump_code(value.__code__)
        yield repr(value.__defaults__)
    for inner in _list_inner_values(value):
        yield from dump(inner, dumped)


def _list_inner_values(value: object) -> Iterator[object]:
    match value:
        case FunctionType():
            yield from (cell.cell_contents for cell in value.__closure__ or ())
        case MethodType():
            yield value.__func__
        case Mapping():
            for key, inner in value.items():
                yield from (str(key), inner)
        case list() | tuple():
            yield from value
        case _:
            return  # an object of a library, not the function's own code


def _dump_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _dump_code(constant)
        else:
            yield repr(constant)
