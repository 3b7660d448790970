"""Every error says its code, survives pickling and has a code of its own."""

import pickle
from collections.abc import Iterator

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError


def tree(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


EVERY = [kind for kind in tree(HoldfastError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", EVERY)
def test_an_error_survives_pickling(kind: type[HoldfastError]) -> None:
    error = kind("expected `a`, found `b`", hint="do `c`")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.hint, copy.args) == (error.message, error.hint, error.args)
    assert str(copy) == f"{kind.code}: expected `a`, found `b`"


def test_every_code_is_used_once() -> None:
    codes = [kind.code for kind in EVERY]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_declares_its_own_code_in_capitals(kind: type[HoldfastError]) -> None:
    assert "code" in vars(kind)
    assert kind.code.replace("_", "").isalpha()
    assert kind.code == kind.code.upper()
    assert kind.exit_code > 0
