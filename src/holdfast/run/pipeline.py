"""Declaring jobs: a Pipeline, and the decorator that adds a job to it. Nothing runs here."""

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

        `settings` are Spark settings of its session; `storage` are options of the object store
        that holds checkpoints and tables, where the environment does not say them.
        """
        self.name = name
        self.checkpoints = checkpoints
        self.settings: Mapping[str, str] = dict(settings or {})
        self.storage: Mapping[str, str] = dict(storage or {})
        self._jobs: dict[JobName, Job] = {}

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs in the order of their declaration."""
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
        """Make the decorated function a job: one streaming DataFrame in a source, one out.

        `trigger` is a time like `"10 seconds"`, `available_now()`, or nothing for as fast as can
        be. `settings` are Spark SQL settings of this job alone.
        """
        refusal = locations.refuse_name(name)
        if refusal is not None:
            raise refusal
        sources = tuple(reads) if isinstance(reads, Sequence) else (reads,)
        outputs = (writes,) if isinstance(writes, Output) else tuple(writes)
        if not sources:
            raise OptionInvalid(
                f"expected at least one source of job `{name}`, found none",
                hint="give one: `reads=sources.files(path, …)`",
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
        """The named jobs, or all; raises JobUnknown with the names that there are."""
        for name in names:
            if name not in self._jobs:
                known = ", ".join(f"`{job}`" for job in self._jobs) or "none"
                raise JobUnknown(
                    f"expected a job of pipeline `{self.name}` ({known}), found `{name}`",
                    hint="see `holdfast jobs MODULE`",
                )
        return tuple(job for job in self.jobs if not names or job.name in names)

    def start(self, spark: "SparkSession", *, dev: bool = False) -> "Running":
        """Start every job on a session that exists already, as in a notebook; returns at once."""
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
                f"expected one job named `{job.name}` in pipeline `{self.name}`, found it"
                f" declared in {other.declared_at} and {job.declared_at}",
                hint="give one of them another name: the name is the checkpoint location",
            )
        self._jobs[job.name] = job


def available_now() -> AvailableNow:
    """The trigger that processes what is there now, then stops."""
    return AvailableNow()


def _check_outputs(job: str, outputs: tuple[Output, ...]) -> None:
    if not outputs:
        raise OptionInvalid(
            f"expected at least one output of job `{job}`, found none",
            hint="give one: `writes=sinks.delta_append(path)`",
        )
    names = [output.name for output in outputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OutputDuplicated(
            f"expected outputs of job `{job}` with names of their own, found `{twice}` twice",
            hint='name them: `sinks.delta_append(path, name="late-readings")`',
        )
    if len(outputs) > 1 and any(isinstance(output.sink, FileSink) for output in outputs):
        raise OptionInvalid(
            f"expected Spark's file sink as the only output of job `{job}`, found {len(outputs)}",
            hint="write Delta instead, or give the file sink a job of its own",
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
            f"expected a trigger like `10 seconds`, found `{text}`",
            hint="use milliseconds, seconds, minutes or hours",
        )
    return seconds


def _parse_output_mode(given: str) -> OutputMode:
    try:
        return OutputMode(given)
    except ValueError:
        raise OptionInvalid(
            f"expected an output mode of append, update or complete, found `{given}`",
            hint='use `output_mode="update"` for aggregates that are merged',
        ) from None


def _find_declaration(function: Callable[..., object]) -> DeclarationSite:
    while isinstance(function, functools.partial):
        function = function.func
    code = inspect.unwrap(function).__code__
    return DeclarationSite(file=code.co_filename, line=code.co_firstlineno)
