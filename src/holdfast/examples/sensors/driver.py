"""The demo's driver: a process of its own that can be killed, and how far its jobs have got.

Spark writes `offsets/N` before it runs batch N and `commits/N` after it, so that the two folders
of a checkpoint say whether a job is inside a batch. Whether a table holds that batch already is
what the table's own ledger says.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.examples.sensors import pipeline
from holdfast.examples.sensors.pipeline import Settings
from holdfast.model.batch import WrittenBatch
from holdfast.model.definition import Job
from holdfast.model.ids import Generation
from holdfast.run.query import stream
from holdfast.run.query.stream import OpenOutput

_STOP_WITHIN_S = 60.0
# A driver that is killed after half a minute gains nothing from Java's second compiler, several
# threads of garbage collection and a web page.
_SHORT_LIFE = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
}
_SHOWN_LINES = 40


class DriverEnded(Exception):
    """The driver ended without being told to, or not as it was told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest batch that a job has begun, and the newest that it has done; -1 for none."""

    begun: int
    done: int

    @property
    def inside(self) -> bool:
        """Whether the job is inside a batch."""
        return self.begun > self.done


class DriverProcess:
    """`holdfast run` of the sensor pipeline, in a process group together with its JVM."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = settings.home / "driver.log"

    def start(self) -> None:
        """Start a driver; how it gets on is to be asked of `progress`."""
        settings = self._settings
        said = {
            pipeline.HOME: str(settings.home),
            pipeline.KAFKA: settings.kafka or "",
            pipeline.POSTGRES: settings.postgres or "",
            pipeline.ENCODING: settings.encoding.value,
        }
        inherited = os.environ  # noqa: TID251 - a driver finds Java and Python as its parent does
        command = [sys.executable, "-m", "holdfast", "run", pipeline.__name__, "--dev"]
        for key, value in _SHORT_LIFE.items():
            command += ["--set", f"{key}={value}"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the command is built here
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, **said},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise DriverEnded if the driver has ended by itself."""
        code = self._process.poll() if self._process else None
        if code is not None:
            raise DriverEnded(f"expected the driver to run, found that it ended with {code}")

    def kill(self) -> None:
        """End the driver and its JVM at once, wherever they are; nothing happens if none runs."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # The group, because a JVM that outlives its driver would go on writing for a while.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """Tell the driver to finish its batches and end; raises DriverEnded unless it does so."""
        self.check()
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DriverEnded(
                f"expected the driver to stop within {_STOP_WITHIN_S:.0f} s, found it running"
            ) from None
        self._process = None
        if code != 0:
            raise DriverEnded(f"expected the driver to stop with 0, found {code}")

    def read_log_end(self) -> str:
        """The end of what the drivers said."""
        lines = self.log_file.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_SHOWN_LINES:])


def read_progress(settings: Settings, job: str) -> Progress:
    """How far a job has got, by its checkpoint."""
    checkpoint = settings.checkpoints / job
    return Progress(
        begun=_find_newest(checkpoint / "offsets"), done=_find_newest(checkpoint / "commits")
    )


def describe_interrupted(settings: Settings) -> tuple[str, ...]:
    """What each job of a killed driver was doing, in words."""
    return tuple(_describe_job(settings, job) for job in pipeline.sensors(settings).jobs)


def _describe_job(settings: Settings, job: Job) -> str:
    found = read_progress(settings, job.name)
    if not found.inside:
        return f"{job.name} before batch {found.done + 1}"
    outputs = stream.open_outputs(job, Generation(1), {})
    holding = [opened.output.name for opened in outputs if _has_batch(opened, found.begun)]
    already = f" ({' and '.join(holding)} already had it)" if holding else ""
    return f"{job.name} inside batch {found.begun}{already}"


def _has_batch(opened: OpenOutput, batch: int) -> bool:
    last = opened.ledgered.last_written() if opened.ledgered else None
    return isinstance(last, WrittenBatch) and last.batch == batch


def _find_newest(folder: Path) -> int:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdecimal()), default=-1)
