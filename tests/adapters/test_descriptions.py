"""Metadata and schemas of stateful operators, where a start reads them and where it does not."""

import shutil
from pathlib import Path

import pytest
from tests.diagnosing import codes, diagnosed
from tests.golden import golden
from tests.looking import evidence

from holdfast.model.finding import Code
from holdfast.model.restart import Stage, StartError
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import OperatorEvidence

PROCESSOR, JOIN = "tws-rows-changelog", "join-inner-format-3-changelog"
BOTH = pytest.mark.parametrize("scenario", [PROCESSOR, JOIN])
SPARKS = pytest.mark.parametrize("version", ["4.1", "4.2", "4.3"])


def moved(version: str, scenario: str, place: Path) -> Path:
    """A golden checkpoint whose metadata names the schemas in its own place."""
    shutil.copytree(golden(version, scenario).checkpoint, place)
    for file in (place / "state/0/_metadata/v2").glob("[0-9]*"):
        head, _, rest = file.read_text().partition('"stateSchemaFilePaths":["')
        named = rest[rest.index("/state/") :]
        file.write_text(f'{head}"stateSchemaFilePaths":["file:{place}{named}')
    return place


def error(location: Path, version: str) -> StartError | None:
    """What a start of that Spark is predicted to fail with."""
    return diagnosed(location, spark=spark(version)).restart.error


def spark(version: str) -> SparkVersion:
    """A version of two numbers."""
    return SparkVersion(*map(int, version.split(".")))


def schema(location: Path) -> Path:
    """The only one."""
    (found,) = (location / "state/0/_stateSchema/default").glob("[0-9]*")
    return found


def operator(location: Path) -> OperatorEvidence:
    """The only one."""
    (found,) = evidence(location).operators
    return found


@BOTH
@SPARKS
def test_a_schema_that_is_cut_stops_the_planning(
    version: str, scenario: str, tmp_path: Path
) -> None:
    location = moved(version, scenario, tmp_path / "c")
    assert error(location, version) is None
    schema(location).write_bytes(schema(location).read_bytes()[:40])
    found = diagnosed(location, spark=spark(version))
    assert Code.STATE_SCHEMA_UNREADABLE in codes(found)
    assert found.restart.error is not None
    assert (found.restart.error.stage, found.restart.error.exceptions[0]) == (
        Stage.PLANNING,
        "EOFException",
    )


@SPARKS
def test_a_schema_that_is_gone_stops_a_processor_and_no_join(version: str, tmp_path: Path) -> None:
    processor = moved(version, PROCESSOR, tmp_path / "p")
    schema(processor).unlink()
    found = diagnosed(processor, spark=spark(version))
    assert Code.STATE_SCHEMA_UNREADABLE in codes(found)
    assert found.restart.error is not None
    assert found.restart.error.exceptions == ("FileNotFoundException",)
    join = moved(version, JOIN, tmp_path / "j")
    schema(join).unlink()
    assert error(join, version) is None


def test_every_schema_that_is_named_is_looked_for(tmp_path: Path) -> None:
    location = moved("4.1", PROCESSOR, tmp_path / "c")
    named = schema(location)
    first = named.with_name("0_00000000-1111-4222-8333-444444444444")
    for file in (location / "state/0/_metadata/v2").glob("[0-9]*"):
        file.write_text(file.read_text().replace(f"{named}", f'{first}","file:{named}'))
    assert operator(location).lost_schemas == (str(first.relative_to(location)),)
    assert error(location, "4.1") is not None
    shutil.copy(named, first)
    assert error(location, "4.1") is None
    first.write_bytes(b"")
    assert error(location, "4.1") is not None


@BOTH
@SPARKS
def test_metadata_that_is_gone_stops_the_planning(
    version: str, scenario: str, tmp_path: Path
) -> None:
    location = moved(version, scenario, tmp_path / "c")
    shutil.rmtree(location / "state/0/_metadata")
    found = diagnosed(location, spark=spark(version))
    assert Code.OPERATOR_METADATA_UNREADABLE in codes(found)
    assert Code.OPERATORS_UNCHECKED not in codes(found)
    assert found.restart.error is not None
    assert found.restart.error.condition == "STDS_FAILED_TO_READ_OPERATOR_METADATA"


@BOTH
def test_metadata_that_is_cut_stops_the_planning(scenario: str, tmp_path: Path) -> None:
    location = moved("4.2", scenario, tmp_path / "c")
    newest = max((location / "state/0/_metadata/v2").glob("[0-9]*"), key=lambda f: int(f.name))
    newest.write_bytes(newest.read_bytes()[:30])
    found = diagnosed(location, spark=SparkVersion(4, 2))
    assert Code.OPERATOR_METADATA_UNREADABLE in codes(found)
    assert found.restart.error is not None
    assert found.restart.error.read_from == (f"state/0/_metadata/v2/{newest.name}",)
    newest.write_bytes(b"")
    empty = error(location, "4.2")
    assert empty is not None
    assert empty.condition == "INTERNAL_ERROR"


def test_metadata_of_a_later_batch_is_not_read(tmp_path: Path) -> None:
    """Somebody took the checkpoint back by a few batches."""
    location = moved("4.1", PROCESSOR, tmp_path / "c")
    folder = location / "state/0/_metadata/v2"
    (folder / "99").write_bytes(b"v2\n{")
    assert error(location, "4.1") is None
    for file in folder.glob("[0-9]"):
        file.unlink()
    found = error(location, "4.1")
    assert found is not None
    assert found.condition == "STDS_FAILED_TO_READ_OPERATOR_METADATA"


def test_metadata_of_version_1_is_not_needed(tmp_path: Path) -> None:
    location = tmp_path / "c"
    shutil.copytree(golden("4.2", "aggregate-hdfs").checkpoint, location)
    shutil.rmtree(location / "state/0/_metadata")
    found = diagnosed(location, spark=SparkVersion(4, 2))
    assert Code.OPERATORS_UNCHECKED in codes(found)
    assert found.restart.error is None


def test_the_first_batch_does_without(tmp_path: Path) -> None:
    location = moved("4.1", PROCESSOR, tmp_path / "c")
    for log in ("offsets", "commits"):
        for file in (location / log).iterdir():
            if log == "commits" or file.name not in ("0", ".0.crc"):
                file.unlink()
    shutil.rmtree(location / "state/0/_metadata")
    found = diagnosed(location, spark=SparkVersion(4, 1))
    assert found.restart.batch == 0
    assert Code.OPERATOR_METADATA_UNREADABLE not in codes(found)


def test_a_schema_that_a_refused_start_has_left_is_not_shown(tmp_path: Path) -> None:
    location = moved("4.2", PROCESSOR, tmp_path / "c")
    before = operator(location).schema
    (other,) = (
        golden("4.2", "tws-ttl-changelog").checkpoint / "state/0/_stateSchema/default"
    ).glob("[0-9]*")
    left = location / "state/0/_stateSchema/default/4_11111111-2222-4333-8444-555555555555"
    shutil.copy(other, left)
    assert operator(location).schema == before
    left.write_bytes(b"")
    assert error(location, "4.2") is None


def test_a_schema_in_another_place_is_not_judged_by_the_one_here(tmp_path: Path) -> None:
    location = tmp_path / "c"
    shutil.copytree(golden("4.2", PROCESSOR).checkpoint, location)
    schema(location).write_bytes(b"")
    found = diagnosed(location, spark=SparkVersion(4, 2))
    assert found.restart.error is None
    assert Code.STATE_SCHEMA_ELSEWHERE in codes(found)


def test_a_checkpoint_is_not_to_be_moved_that_names_its_own_folder(tmp_path: Path) -> None:
    location = moved("4.1", PROCESSOR, tmp_path / "c")
    (told,) = (one for one in diagnosed(location).findings if one.code is Code.STORAGE_EPHEMERAL)
    assert told.remedies[0].startswith("the folder cannot be moved")
    location.rename(tmp_path / "elsewhere")
    assert Code.STATE_SCHEMA_ELSEWHERE in codes(diagnosed(tmp_path / "elsewhere"))
