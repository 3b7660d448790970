"""The checkpoints in `tests/checkpoints`, which real Spark wrote, with what Spark said of each.

    for golden in GOLDEN: golden.checkpoint, golden.expected["query_id"] ...

    @each
    def test_…(golden: Golden): ...     every one of them in `make prove`, of each scenario one in
                                        `make test`, of which the versions take turns

`tests/checkpoints/README.md` says what is there and what `expected.json` holds.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "checkpoints"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """A checkpoint that a Spark of this version wrote."""

    version: str
    scenario: str
    checkpoint: Path

    def __str__(self) -> str:
        """The name of a test's case."""
        return f"{self.version}/{self.scenario}"

    @property
    def sink(self) -> Path:
        """What the file or Delta sink wrote; other scenarios have no such folder."""
        return self.checkpoint.parent / "sink"

    @cached_property
    def expected(self) -> Mapping[str, object]:
        """What Spark said of the queries that wrote the checkpoint, as JSON has it."""
        said = json.loads((self.checkpoint.parent / "expected.json").read_text("utf-8"))
        assert isinstance(said, dict)
        return said

    @property
    def progress(self) -> Iterator[Mapping[str, object]]:
        """Every progress that Spark reported, of all runs, in order."""
        runs = self.expected["runs"]
        assert isinstance(runs, list)
        for run in runs:
            yield from run["progress"]


def _found() -> Iterator[Golden]:
    for checkpoint in sorted(FOLDER.glob("*/*/checkpoint")):
        version, scenario = checkpoint.parts[-3:-1]
        yield Golden(version=version, scenario=scenario, checkpoint=checkpoint)


GOLDEN = tuple(_found())


def _one_of_each() -> Iterator[Golden]:
    by_scenario: dict[str, list[Golden]] = {}
    for one in GOLDEN:
        by_scenario.setdefault(one.scenario, []).append(one)
    for number, (_, written) in enumerate(sorted(by_scenario.items())):
        yield written[number % len(written)]


ONE_OF_EACH = tuple(_one_of_each())
each = pytest.mark.parametrize(
    "golden",
    [pytest.param(one, marks=() if one in ONE_OF_EACH else pytest.mark.prove) for one in GOLDEN],
    ids=str,
)


def golden(version: str, scenario: str) -> Golden:
    """The one checkpoint of a version's line (`4.1`) or release (`4.1.4`) and a scenario."""
    (found,) = (
        one
        for one in GOLDEN
        if one.scenario == scenario and f"{one.version}.".startswith(f"{version}.")
    )
    return found
