"""The public names are what `__all__` says, and few."""

import types

import pytest

import holdfast
from holdfast import sinks, sources


def test_the_public_names() -> None:
    assert holdfast.__all__ == sorted(holdfast.__all__, key=lambda name: name)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)
    public = {
        name
        for name, value in vars(holdfast).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public <= set(holdfast.__all__)
    assert len(holdfast.__all__) <= 20


@pytest.mark.parametrize("module", [sources, sinks])
def test_what_a_module_defines_publicly_is_in_its_all(module: types.ModuleType) -> None:
    defined = {
        name
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert sorted(defined) == module.__all__
