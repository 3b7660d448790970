"""Declare jobs: a Pipeline, and the decorator that adds a job to it. Nothing runs here."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from holdfast.diagnose import locations
from holdfast.errors import (
    JobDuplicated,
    JobUnknown,
    OptionInvalid,
    OutputDuplicated,
)
from holdfast.model.definition import (
    AvailableNow,
    Continuously,
    Declaration,
    DeclarationSite,
    DeclaredSource,
    Every,
    FileSink,
    Job,
    Output,
    OutputMode,
    Trigger,
)
from holdfast.model.ids import JobName
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.run.watch.driver import Running

Function = TypeVar("Function", bound=Callable[..., object])


class Pipeline:
    """Jobs that share a checkpoint base: each gets `<base>/<job name>` for itself."""

    def __init__(
        self,
        name: str,
        *,
        checkpoints: str | None = None,
        settings: Mapping[str, str] | None = None,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        """Declare a pipeline.

        `settings` are Spark settings of its session. `storage` are options of the object store
        that has the checkpoints and tables, unless the environment sets them.
        """
        self.name = name
        self.checkpoints = checkpoints
        self.settings: Mapping[str, str] = dict(settings or {})
        self.storage: Mapping[str, str] = dict(storage or {})
        self._jobs: dict[JobName, Job] = {}

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs, in the order of their declaration."""
        return tuple(self._jobs.values())

    def job(
        self,
        name: str,
        *,
        reads: DeclaredSource | Sequence[DeclaredSource],
        writes: Output | Sequence[Output],
        trigger: Trigger | str | None = None,
        output_mode: str = "append",
        settings: Mapping[str, str] | None = None,
    ) -> Callable[[Function], Function]:
        """Make the decorated function a job: one streaming DataFrame in per source, one out.

        `trigger` is an interval like `"10 seconds"`, or `available_now()`; without it a batch
        starts as soon as the previous one ends. `settings` are Spark SQL settings of this job.
        """
        refusal = locations.refuse_name(name)
        if refusal is not None:
            raise refusal
        sources = tuple(reads) if isinstance(reads, Sequence) else (reads,)
        outputs = (writes,) if isinstance(writes, Output) else tuple(writes)
        if not sources:
            raise OptionInvalid(
                f"job `{name}` has no source",
                hint="add one: `reads=sources.files(path, …)`",
            )
        _check_outputs(name, outputs)

        def declare(function: Function) -> Function:
            job = Job(
                name=JobName(name),
                function=function,
                reads=sources,
                writes=outputs,
                trigger=_parse_trigger(trigger),
                output_mode=_parse_output_mode(output_mode),
                settings=dict(settings or {}),
                declared_at=_find_declaration(function),
            )
            self._add(job)
            return function

        return declare

    @property
    def declaration(self) -> Declaration:
        """The pipeline as a value."""
        return Declaration(
            name=self.name,
            checkpoints=self.checkpoints,
            settings=self.settings,
            storage=self.storage,
            jobs=self.jobs,
        )

    def chosen(self, names: Sequence[str]) -> tuple[Job, ...]:
        """Return the named jobs, or all; raise JobUnknown if a name is not one of them."""
        for name in names:
            if name not in self._jobs:
                known = ", ".join(f"`{job}`" for job in self._jobs) or "none"
                raise JobUnknown(
                    f"pipeline `{self.name}` has no job `{name}`. Its jobs: {known}",
                    hint="list the jobs with `holdfast jobs MODULE`",
                )
        return tuple(job for job in self.jobs if not names or job.name in names)

    def start(self, spark: "SparkSession", *, dev: bool = False) -> "Running":
        """Start every job on an existing session, as in a notebook, and return at once."""
        from holdfast.run import order
        from holdfast.run.session import build
        from holdfast.run.start.admission import RunOptions

        build.adopt(spark, on_s3=urls.is_s3(self.checkpoints or ""))
        return order.start(self.declaration, self.jobs, RunOptions(dev=dev), lambda _: spark)

    def _add(self, job: Job) -> None:
        other = self._jobs.get(job.name)
        if other is not None and (other.declared_at, other.reads, other.writes) != (
            job.declared_at,
            job.reads,
            job.writes,
        ):
            raise JobDuplicated(
                f"pipeline `{self.name}` declares job `{job.name}` twice, in {other.declared_at}"
                f" and in {job.declared_at}",
                hint="rename one of them: the name is the checkpoint location",
            )
        self._jobs[job.name] = job


def available_now() -> AvailableNow:
    """Return the trigger that processes all available data, then stops."""
    return AvailableNow()


def _check_outputs(job: str, outputs: tuple[Output, ...]) -> None:
    if not outputs:
        raise OptionInvalid(
            f"job `{job}` has no output",
            hint="add one: `writes=sinks.delta_append(path)`",
        )
    names = [output.name for output in outputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OutputDuplicated(
            f"job `{job}` has two outputs named `{twice}`",
            hint='name one of them: `sinks.delta_append(path, name="late-readings")`',
        )
    if len(outputs) > 1 and any(isinstance(output.sink, FileSink) for output in outputs):
        raise OptionInvalid(
            f"job `{job}` has {len(outputs)} outputs, and Spark's file sink must be the only one",
            hint="write to Delta instead, or give the file sink a job of its own",
        )


def _parse_trigger(given: Trigger | str | None) -> Trigger:
    if given is None:
        return Continuously()
    if isinstance(given, str):
        return Every(seconds=_parse_seconds(given))
    return given


_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def _parse_seconds(text: str) -> float:
    number, _, unit = text.strip().partition(" ")
    factor = _UNITS.get(unit.strip().lower().removesuffix("s"))
    try:
        seconds = float(number) * factor if factor is not None else None
    except ValueError:
        seconds = None
    if seconds is None or not 0 < seconds < math.inf:
        raise OptionInvalid(
            f"`{text}` is not a trigger interval",
            hint="write it like `10 seconds`; units are milliseconds, seconds, minutes and hours",
        )
    return seconds


def _parse_output_mode(given: str) -> OutputMode:
    try:
        return OutputMode(given)
    except ValueError:
        raise OptionInvalid(
            f"`{given}` is not an output mode: use append, update or complete",
            hint='use `output_mode="update"` for aggregates that are merged',
        ) from None


def _find_declaration(function: Callable[..., object]) -> DeclarationSite:
    while isinstance(function, functools.partial):
        function = function.func
    code = inspect.unwrap(function).__code__
    return DeclarationSite(file=code.co_filename, line=code.co_firstlineno)
