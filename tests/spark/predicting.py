"""A prediction beside what Spark did: where do the two differ?

case = Case(query="counts", changes=("commit: last gone",), new_input=True)
disagreements(spark, bases, case, folder)    what was predicted and was not so; nothing if all was
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.crash_states import STATES
from tests.spark.restarting import (
    QUERIES,
    Failure,
    Observed,
    copied,
    rows,
    start,
    write_input,
)

from holdfast.gather import evidence
from holdfast.gather.evidence import CheckpointPlace
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.restart import Restart, RunForecast, Stage, StartError
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import candidates, restart
from holdfast.storage import Children, open_reader

BATCHES = 4
_NEW = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A checkpoint of a query, what is done to it, and whether there is something new to read."""

    query: str
    changes: tuple[str, ...]
    new_input: bool

    def __str__(self) -> str:
        """The name of the case."""
        new = "new input" if self.new_input else "no new input"
        return f"{self.query}: {' + '.join(self.changes)} ({new})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was predicted, what was seen, and where they differ."""

    predicted: Restart
    observed: Observed
    differences: tuple[str, ...]


class Bases:
    """A checkpoint at rest of each query, made when it is first asked for."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def of(self, name: str) -> Path:
        """The folder of a query's checkpoint and input."""
        folder = self.folder / name
        if not folder.exists():
            query = QUERIES[name]
            for batch in range(2 * BATCHES if name == "compacted" else BATCHES):
                for source in range(query.sources):
                    write_input(folder, batch, source)
            made = start(self.spark, query, folder)
            assert made.failure is None, made
        return folder


def compared(bases: Bases, case: Case) -> Compared:
    """Make the state, predict, let Spark start on it, and compare."""
    folder = bases.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    copied(bases.of(case.query), folder)
    for change in case.changes:
        # What an earlier change has damaged may leave a later one nothing to work on.
        with suppress(ValueError, IndexError, KeyError, TypeError):
            STATES[change](folder)
    if case.new_input:
        write_input(folder, _NEW)
    query = QUERIES[case.query]
    seen = _evidence(folder / "ck")
    spark = SparkVersion(*(int(part) for part in bases.spark.version.split(".")[:2]))
    how = candidates.choose_start(seen, spark, asynchronous=query.asynchronous)
    predicted = restart.predict(seen, how)
    unread = _unread(folder)
    expected = _rows(folder, predicted) if not query.stateful else None
    observed = start(bases.spark, query, folder)
    found = tuple(_differences(predicted, observed, unread=unread, expected=expected))
    if found and predicted.alternative is not None:
        other = predicted.alternative.restart
        expected = _rows(folder, other) if not query.stateful else None
        found = tuple(_differences(other, observed, unread=unread, expected=expected))
    return Compared(predicted=predicted, observed=observed, differences=found)


def _evidence(checkpoint: Path) -> Evidence:
    """What can be said of it, also where so little is left that the command calls it none."""
    reader = open_reader(str(checkpoint), {})
    top = reader.children("")
    assert isinstance(top, Children)
    place = CheckpointPlace(url=str(checkpoint), name="ck", reader=reader, parent=None, storage={})
    return evidence.collect(place, top, event_log=None, now_ms=0, on_progress=lambda *_: None)


def _listed(source: Path) -> set[tuple[str, int]]:
    """Every file that a source's log names, with its log offset."""
    found: set[tuple[str, int]] = set()
    for entry in source.iterdir() if source.is_dir() else ():
        if not entry.is_file() or entry.name.startswith("."):
            continue
        for line in entry.read_text(errors="replace").splitlines()[1:]:
            try:
                told = json.loads(line)
                found.add((Path(told["path"]).name, told["batchId"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found


def _unread(folder: Path) -> bool:
    """Whether there is a file that no source's log names."""
    for source in folder.glob("in*"):
        log = folder / "ck" / "sources" / source.name.removeprefix("in")
        listed = {name for name, _ in _listed(log)}
        if any(file.name not in listed for file in source.iterdir() if file.suffix == ".json"):
            return True
    return False


def _log_offset(offset: object) -> int:
    """A file source takes a bare number for a log offset."""
    found = offset.get("logOffset") if isinstance(offset, dict) else offset
    return found if isinstance(found, int) else -1


def _rows(folder: Path, predicted: Restart) -> tuple[tuple[object, ...], ...] | None:
    """The rows of a predicted range of files, of a query that only selects."""
    if not predicted.rerun:
        return None
    found: list[tuple[object, ...]] = []
    for one in predicted.ranges:
        first, last = (_log_offset(offset) for offset in (one.start, one.end))
        listed = _listed(folder / "ck" / "sources" / one.source)
        for name, offset in listed:
            if first < offset <= last:
                source, batch = int(one.source), int(name.removesuffix(".json"))
                found += [(row["k"], row["v"]) for row in rows(batch, source)]
    return tuple(sorted(found))


def _differences(
    predicted: Restart,
    observed: Observed,
    *,
    unread: bool,
    expected: tuple[tuple[object, ...], ...] | None,
) -> Iterator[str]:
    error = predicted.error
    if error is not None and isinstance(error.batch, Unknown):
        yield from _of_failure(error, observed)
        if observed.delivered or observed.planned:
            yield f"expected nothing to be run, found {observed.delivered} {observed.planned}"
        return
    if predicted.runs is RunForecast.UNKNOWN:
        return
    if not (
        predicted.runs is RunForecast.SURELY
        or (predicted.runs is RunForecast.IF_THERE_IS_DATA and unread)
    ):
        if observed.failure or observed.delivered or observed.planned:
            yield f"expected no batch and no error, found {observed}"
        return
    if error is None or error.stage is Stage.AFTERWARDS:
        yield from _of_batch(predicted, observed, expected)
    else:
        yield from _of_failure(error, observed)
        yield from _of_stage(predicted, error, observed)


def _of_failure(error: StartError, observed: Observed) -> Iterator[str]:
    failure = observed.failure
    if failure is None:
        yield f"expected {error.exceptions} {error.condition}, found no failure"
    elif not _same(error, failure):
        yield f"expected {error.exceptions} {error.condition}, found {failure}"


def _same(error: StartError, failure: Failure) -> bool:
    return failure.exception in error.exceptions and failure.condition == error.condition


def _of_stage(predicted: Restart, error: StartError, observed: Observed) -> Iterator[str]:
    batch = predicted.batch
    planned = () if predicted.rerun or error.stage is Stage.START else (batch,)
    if observed.planned != planned:
        yield f"expected offset entries {planned}, found {observed.planned}"
    sink = [(one.batch, one.rows is not None) for one in observed.delivered]
    reached: dict[Stage, list[tuple[object, bool]]] = {
        Stage.START: [],
        Stage.PLANNING: [],
        Stage.WRITING: [(batch, False)],
        Stage.COMMITTING: [(batch, True)],
    }
    if sink != reached[error.stage]:
        yield f"expected the sink to see {reached[error.stage]}, found {sink}"


def _of_batch(
    predicted: Restart, observed: Observed, expected: tuple[tuple[object, ...], ...] | None
) -> Iterator[str]:
    batch = predicted.batch
    assert not isinstance(batch, Unknown)
    if not observed.delivered or observed.delivered[0].batch != batch:
        yield f"expected batch {batch} first, found {observed}"
        return
    if batch not in observed.committed and batch not in observed.ranges:
        yield f"expected batch {batch} to be committed, found {observed}"
    if predicted.rerun is not (batch in observed.before):
        yield f"expected rerun {predicted.rerun}, found entries {observed.before} before"
    if expected is not None and observed.delivered[0].rows != expected:
        yield f"expected rows {expected}, found {observed.delivered[0].rows}"
    yield from _of_ranges(predicted, batch, observed)
    yield from _of_watermark(predicted, batch, observed)
    failure = observed.failure
    last = observed.delivered[-1].batch
    possible = [*([predicted.error] if predicted.error else []), *predicted.later]
    if failure is not None and not any(_same(one, failure) for one in possible):
        yield f"expected no failure after batch {batch}, found {failure} at {last}"
    sure = [one for one in predicted.later if one.stage is not Stage.AFTERWARDS]
    if failure is None and any(one.batch in observed.planned for one in sure):
        yield f"expected a failure of {predicted.later}, found none"


def _of_ranges(predicted: Restart, batch: int, observed: Observed) -> Iterator[str]:
    if batch not in observed.ranges or not predicted.ranges:
        return
    for one, (first, last) in zip(predicted.ranges, observed.ranges[batch], strict=True):
        if one.start != first:
            yield f"expected source {one.source} from {one.start}, found {first}"
        if not isinstance(one.end, Unknown) and one.end != last:
            yield f"expected source {one.source} to {one.end}, found {last}"


def _of_watermark(predicted: Restart, batch: int, observed: Observed) -> Iterator[str]:
    told = observed.watermarks.get(batch, "")
    if told and predicted.watermark_ms != _ms(told):
        yield f"expected watermark {predicted.watermark_ms}, found {told}"


def _ms(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1000)
