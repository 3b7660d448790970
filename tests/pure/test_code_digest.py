"""The digest under which proofs are recorded follows the code, and nothing else."""

from pathlib import Path

import pytest
from tests.code_digest import digest_code

CODE = '''
"""A module."""

LIMIT = 4
"""How much."""


class Failure(Exception):
    """Why."""


def halve(given: int) -> int:
    """Halve a number."""
    # rounds down
    text = "kept"
    return given // 2 if text else LIMIT
'''


def digest(folder: Path, code: str, name: str = "one.py") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(code)
    return digest_code(folder.glob("*.py"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""The module."""'),
        ('"""A module."""', ""),
        ('"""How much."""', '"""How many."""'),
        ('"""Halve a number."""', '"""Return half of it."""\n'),
        ('    """Why."""', "    pass"),
        ("# rounds down", "# rounds towards minus infinity"),
        ("    # rounds down\n", ""),
        ("(given: int)", "(\n    given: int,\n)"),
    ],
)
def test_prose_and_layout_do_not_change_it(tmp_path: Path, old: str, new: str) -> None:
    assert old in CODE
    assert digest(tmp_path, CODE.replace(old, new)) == digest(tmp_path, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 4", "LIMIT = 5"),
        ('"kept"', '"lost"'),
        ("given // 2", "given / 2"),
        ("halve", "divide"),
        ("class Failure(Exception)", "class Failure(ValueError)"),
    ],
)
def test_code_changes_it(tmp_path: Path, old: str, new: str) -> None:
    assert old in CODE
    assert digest(tmp_path, CODE.replace(old, new)) != digest(tmp_path, CODE)


def test_a_module_that_is_renamed_or_added_changes_it(tmp_path: Path) -> None:
    known = digest(tmp_path / "a", CODE)
    assert digest(tmp_path / "b", CODE, "two.py") != known
    assert digest(tmp_path / "a", "", "two.py") != known
