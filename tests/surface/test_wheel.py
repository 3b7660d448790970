"""The wheel as a newcomer installs it: every command, with no extra and with each one missing."""

import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests import wheel
from tests.adapters.test_inspect_ledgers import checkpoint
from tests.golden import FOLDER

from holdfast.errors import EXTRAS

COMMANDS = ("run", "jobs", "inspect", "state", "diagnose", "check", "explain", "demo")
JOB = """
from holdfast import Pipeline, sinks, sources
{imports}
pipeline = Pipeline("orders", checkpoints="checkpoints")

@pipeline.job("j", reads=sources.files("in", format="json", schema="id LONG"), writes={writes})
def ingest(rows):
    return rows
"""
DELTA = 'sinks.delta_append("table")'
POSTGRES = 'sinks.postgres_append("host=127.0.0.1 port=1 dbname=d user=u", "t")'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> wheel.Installed:
    """The wheel, built and installed once."""
    return wheel.Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a checkpoint and pipelines of several kinds."""
    shutil.copytree(FOLDER / "4.1.4/aggregate-hdfs/checkpoint", tmp_path / "c")
    (tmp_path / "delta.py").write_text(JOB.format(imports="", writes=DELTA))
    typed = "from pyspark.sql import DataFrame"
    (tmp_path / "typed.py").write_text(JOB.format(imports=typed, writes=DELTA))
    (tmp_path / "served.py").write_text(JOB.format(imports="", writes=POSTGRES))
    (tmp_path / "wrong.py").write_text("import nothing_of_this_name\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [(), ("--help",), ("--version",), ("explain",), ("explain", "SINK_BEHIND"), ("inspect", "c")]
    + [(command, "--help") for command in COMMANDS],
    ids=" ".join,
)
def test_the_bare_wheel_helps_looks_and_explains(
    installed: wheel.Installed, home: Path, arguments: tuple[str, ...]
) -> None:
    done = installed.holdfast(*arguments, within=home)
    shown = done.stdout if arguments else done.stderr
    assert (done.returncode, len(shown) > 10) == (2 if not arguments else 0, True), done.stderr
    assert "UNEXPECTED" not in done.stderr


def test_the_bare_wheel_diagnoses(installed: wheel.Installed, home: Path) -> None:
    done = installed.holdfast("diagnose", "c", "--kafka", "127.0.0.1:1", within=home)
    assert done.returncode in (0, 1)
    assert done.stderr == ""


def test_a_ledger_that_needs_an_extra_is_not_assessed_and_not_safe(
    installed: wheel.Installed, home: Path
) -> None:
    write = {"kind": "PostgresAppend", "name": "t", "path": "s.t", "server": "host=nowhere"}
    location = checkpoint(home, job="c", generation=1, writes=[write])
    done = installed.holdfast("diagnose", str(location), within=home)
    assert (done.returncode, done.stderr) == (1, "")
    assert "pip install 'holdfast[postgres]'" in " ".join(done.stdout.split())


_SPARK = ("SPARK_MISSING: `pyspark` is not installed", "holdfast[spark]")
_PSYCOPG = ("EXTRA_MISSING: `psycopg` is not installed", "holdfast[postgres]")
_DEMO = ("SPARK_MISSING: `pyspark`,", "holdfast[spark,postgres]")


@pytest.mark.parametrize(
    ("arguments", "extras", "said"),
    [
        (("run", "delta.py", "--dev"), (), _SPARK),
        (("run", "typed.py", "--dev"), (), _SPARK),
        (("check", "delta.py"), (), _SPARK),
        (("check", "typed.py"), (), _SPARK),
        (("jobs", "typed.py"), (), _SPARK),
        (("state", "c"), (), _SPARK),
        (("demo",), (), _DEMO),
        (("demo", "--kafka"), (), ("`confluent-kafka`", "holdfast[spark,postgres,kafka]")),
        (("inspect", "hdfs://127.0.0.1:1/c"), (), ("`hdfs-native`", "holdfast[hdfs]")),
        (("run", "served.py", "--dev"), ("postgres", "kafka", "hdfs"), _SPARK),
        (("run", "served.py", "--dev"), ("spark", "kafka", "hdfs"), _PSYCOPG),
        (("demo",), ("spark", "kafka", "hdfs"), ("`psycopg`", "holdfast[spark,postgres]")),
        (("demo",), ("postgres", "kafka", "hdfs"), _DEMO),
        (("demo", "--kafka"), ("spark", "postgres"), ("`confluent-kafka`", "postgres,kafka]")),
        (("diagnose", "hdfs://127.0.0.1:1/c"), ("spark",), ("`hdfs-native`", "holdfast[hdfs]")),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_needs_an_extra_names_it(
    installed: wheel.Installed,
    home: Path,
    arguments: tuple[str, ...],
    extras: tuple[str, ...],
    said: tuple[str, str],
) -> None:
    (home / "in").mkdir()
    done = installed.holdfast(*arguments, extras=extras, within=home)
    expected = 3 if done.stderr.startswith("SPARK_MISSING") else 2
    assert (done.returncode, done.stdout) == (expected, ""), done.stderr
    first, second = done.stderr.splitlines()
    assert said[0] in first
    assert "No module named" not in done.stderr
    assert second.startswith("hint: pip install 'holdfast[")
    assert said[1] in second


def test_a_missing_module_that_no_extra_has_is_a_wrong_module(
    installed: wheel.Installed, home: Path
) -> None:
    done = installed.holdfast("run", "wrong.py", extras=("spark",), within=home)
    assert done.returncode == 2
    assert done.stderr.startswith("MODULE_FAILED: ")


def test_a_declaration_needs_no_spark(installed: wheel.Installed, home: Path) -> None:
    done = installed.holdfast("jobs", "served.py", within=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PostgreSQL table public.t" in done.stdout


def _packaged() -> set[str]:
    package = wheel.ROOT / "src/holdfast"
    return {
        f"holdfast/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(installed: wheel.Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == _packaged()
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.prove  # it packs every checkpoint of the tests, which takes a while
def test_the_sdist_holds_what_builds_the_wheel(tmp_path: Path) -> None:
    with tarfile.open(wheel.built("sdist", tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in _packaged()} | {"pyproject.toml", "README.md"} <= packed
    assert not any(name.startswith((".venv", ".ci", ".git/")) for name in packed)


def test_every_package_of_an_extra_is_known_by_its_extra() -> None:
    asked = tomllib.loads((wheel.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {
        extra: {Requirement(one).name for one in packages}
        for extra, packages in asked["optional-dependencies"].items()
    }
    assert {extra: set(modules.values()) for extra, modules in EXTRAS.items()} == named
