"""The demo's driver, a separate process that can be killed, and the progress of its jobs.

Spark writes `offsets/N` before it runs batch N and `commits/N` after it. So the two folders of a
checkpoint show whether a job is inside a batch. The ledger of a table shows whether the table
already has that batch.
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
# A driver that is killed after half a minute gains nothing from Java's second compiler, a parallel
# garbage collector or Spark's web UI.
_SHORT_LIFE = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
}
_MOST_LINES = 40


class DriverEnded(Exception):
    """The driver ended unexpectedly, made no progress, or did not stop cleanly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest batch that a job has begun, and the newest that it has finished; -1 for none."""

    begun: int
    done: int

    @property
    def is_inside_batch(self) -> bool:
        """Return whether the job has begun a batch and not finished it."""
        return self.begun > self.done


class DriverProcess:
    """`holdfast run` with the sensor pipeline, in one process group with its JVM."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = settings.home / "driver.log"

    def start(self) -> None:
        """Start a driver; `read_progress` shows how far it gets."""
        settings = self._settings
        variables = {
            pipeline.HOME: str(settings.home),
            pipeline.KAFKA: settings.kafka or "",
            pipeline.POSTGRES: settings.postgres or "",
            pipeline.ENCODING: settings.encoding.value,
        }
        inherited = os.environ  # noqa: TID251 - a driver finds Java and Python like its parent
        command = [sys.executable, "-m", "holdfast", "run", pipeline.__name__, "--dev"]
        for key, value in _SHORT_LIFE.items():
            command += ["--set", f"{key}={value}"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the command is built here
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, **variables},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise DriverEnded if the driver ended by itself."""
        code = self._process.poll() if self._process else None
        if code is not None:
            raise DriverEnded(f"the driver ended unexpectedly with exit code {code}")

    def kill(self) -> None:
        """Kill the driver and its JVM, if they are running."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # The whole group: a JVM that outlives its driver would keep writing for a while.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """Let the driver finish its batches and end; raise DriverEnded if it does not."""
        self.check()
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DriverEnded(
                f"the driver did not stop within {_STOP_WITHIN_S:.0f} s, and was killed"
            ) from None
        self._process = None
        if code != 0:
            raise DriverEnded(f"the driver stopped with exit code {code} instead of 0")

    def read_log_end(self) -> str:
        """Return the last lines of the drivers' output."""
        lines = self.log_file.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_MOST_LINES:])


def read_progress(settings: Settings, job: str) -> Progress:
    """Return the progress of a job, read from its checkpoint."""
    checkpoint = settings.checkpoints / job
    return Progress(
        begun=_find_newest(checkpoint / "offsets"), done=_find_newest(checkpoint / "commits")
    )


def describe_interrupted(settings: Settings) -> tuple[str, ...]:
    """Describe in words what each job of a killed driver was doing."""
    return tuple(_describe_job(settings, job) for job in pipeline.make_pipeline(settings).jobs)


def _describe_job(settings: Settings, job: Job) -> str:
    progress = read_progress(settings, job.name)
    if not progress.is_inside_batch:
        return f"{job.name} before batch {progress.done + 1}"
    outputs = stream.open_outputs(job, Generation(1), {})
    written = [opened.output.name for opened in outputs if _has_batch(opened, progress.begun)]
    already = f" (already in {' and '.join(written)})" if written else ""
    return f"{job.name} inside batch {progress.begun}{already}"


def _has_batch(opened: OpenOutput, batch: int) -> bool:
    last = opened.ledgered.last_written() if opened.ledgered else None
    return isinstance(last, WrittenBatch) and last.batch == batch


def _find_newest(folder: Path) -> int:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdecimal()), default=-1)
