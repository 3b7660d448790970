"""The index in the docstring of each package names every file and subpackage, and nothing else."""

import ast
import re
from pathlib import Path

import pytest

import holdfast

_SOURCE = Path(holdfast.__file__).parent
_LINE = re.compile(r"^(\w+(?:\.py|/)) ", re.MULTILINE)
# They declare what users call; the functions are documented one by one.
_NO_INDEX = {"", "sources"}


def _packages() -> list[str]:
    folders = (path.parent for path in _SOURCE.rglob("__init__.py"))
    names = (folder.relative_to(_SOURCE).as_posix() for folder in folders)
    return sorted(name for name in names if name.removeprefix(".") not in _NO_INDEX)


@pytest.mark.parametrize("package", _packages())
def test_the_index_of_a_package_matches_its_folder(package: str) -> None:
    folder = _SOURCE / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    files = {path.name for path in folder.glob("*.py") if path.name != "__init__.py"}
    below = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    assert sorted(_LINE.findall(docstring)) == sorted(files | below)
