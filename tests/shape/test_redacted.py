"""Whatever is printed or stored goes through the redaction: a new way out has to be named here."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import holdfast

_SOURCE = Path(holdfast.__file__).parent
_PRINTERS = frozenset(
    {"print", "echo", "secho", "write", "write_text", "write_bytes", "writelines"}
)

# Who prints or stores, and why no secret gets out by it.
_KNOWN = {
    "cli/main.py": 5,  # errors: `_without_secrets`
    "cli/run.py": 1,  # what a run says: `redact.shown`
    "cli/jobs.py": 2,  # what is declared: `redact.shown`, `redact.value`
    "cli/bar.py": 2,  # a number of files
    "cli/check.py": 1,  # reports of `report/`, all of them without secrets
    "cli/diagnose.py": 1,
    "cli/explain.py": 2,
    "cli/inspect.py": 4,
    "cli/options.py": 2,
    "cli/state.py": 1,
    "run/state.py": 1,  # the output of Spark's JVM: `redact.text`
    "run/state_copy.py": 1,  # a copy of state to read from
    "run/query/stream.py": 1,  # rows of a skipped batch, to nowhere
    "run/session/jars.py": 3,  # names of jars
    "run/watch/records.py": 1,  # run records: `_remove_secrets`
    "run/start/lease.py": 1,  # host and process
    "run/start/locations.py": 1,  # the location, which `resolve_base` lets in without secrets
    "storage/exclusive.py": 3,  # a lease, a commit of Delta, a probe
    "storage/hdfs.py": 1,  # the stores themselves
}
_DATA = ("sinks/", "examples/")  # rows, which are the user's


def _calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _PRINTERS:
                yield name


def test_every_way_out_is_known() -> None:
    found = Counter[str]()
    for path in _SOURCE.rglob("*.py"):
        name = path.relative_to(_SOURCE).as_posix()
        if not name.startswith(_DATA):
            found[name] += len(list(_calls(path)))
    assert dict(+found) == _KNOWN
