"""The demo: sensors send messages, the driver is killed repeatedly, and every row is counted.

The demo starts one driver after another and sends an equal share of the messages to each. It lets
a driver work until its target job has finished a batch, and kills the driver in the middle of that
job's next batch. The target is a different job each time. The last driver is not killed: it must
catch up, and then every table is compared with the messages that were sent.

    <home>/landing/ or kafka/   the messages that were sent
    <home>/tables/              five Delta tables
    <home>/database/            a PostgreSQL server with copies of the last two tables
    <home>/checkpoints/         the checkpoints and records of three jobs
    <home>/driver.log           the output of the drivers
"""

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from types import FrameType

import psycopg
from deltalake.exceptions import DeltaError
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.errors import OptionInvalid
from holdfast.examples.database import Database
from holdfast.examples.sensors import driver, pipeline, reconcile, sender, simulator
from holdfast.examples.sensors.driver import DriverEnded, DriverProcess
from holdfast.examples.sensors.pipeline import Settings
from holdfast.examples.sensors.reconcile import Counts, Reconciliation
from holdfast.examples.sensors.sender import Send, Sender
from holdfast.examples.sensors.simulator import Encoding

_PROGRESS_WITHIN_S = 180.0
_BATCH_WITHIN_S = 10.0
_CAUGHT_UP_WITHIN_S = 120.0
_INTO_A_BATCH_S = 0.5
_CHECK_EVERY_S = 0.01
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the demo; the same seed sends the same messages and targets the same jobs."""

    kafka: bool = False
    seed: int = 1
    kills: int = 3
    messages: int = 24_000
    json: bool = False
    home: Path | None = None
    encoding: Encoding = Encoding.JSON


class Demo:
    """One run of the demo in its home folder."""

    def __init__(
        self, options: DemoOptions, settings: Settings, console: Console, *, began: float
    ) -> None:
        self._options = options
        self._settings = settings
        self._console = console
        self._began = began
        self._messages = tuple(
            simulator.generate_messages(options.seed, options.messages, encoding=options.encoding)
        )
        self._truth = simulator.compute_truth(self._messages)
        self._driver = DriverProcess(settings)
        self._sender = Sender(lambda *_: None, self._messages)
        self._counts = Counts()
        self._kills = 0

    def play(self, send: Send) -> Reconciliation:
        """Send every message, kill the driver as often as the options say, and reconcile."""
        self._sender = Sender(send, self._messages)
        drivers = self._options.kills + 1
        with ExitStack() as cleanup:
            cleanup.callback(self._driver.kill)
            self._sender.start()
            cleanup.callback(self._sender.stop)
            cleanup.enter_context(self._show_progress())
            for number, target in enumerate(_choose_targets(self._options), start=1):
                self._sender.allowed = len(self._messages) * number // drivers
                self._run_and_kill(number, target)
            self._sender.allowed = len(self._messages)
            self._run_to_the_end()
        return reconcile.compare(self._messages, self._truth, self._settings)

    def report(self, result: Reconciliation) -> None:
        """Print the result: a table, or a JSON object for programs."""
        if not self._options.json:
            Console().print(self._make_table(result))
            return
        rows = asdict(result)
        differences = rows.pop("differences")
        total = {name: rows.pop(name) for name in ("sent", "lost", "duplicated")}
        total |= {"kills": self._kills, "seconds": round(self._seconds(), 1)}
        print(json.dumps({**total, "rows": rows, "differences": differences}))  # noqa: T201

    def say(self, text: str) -> None:
        """Print a line of progress with the time since the beginning."""
        self._console.print(f"{self._seconds():4.0f} s  {text}", highlight=False, soft_wrap=True)

    def read_log_end(self) -> str:
        """Return the last lines of the drivers' output."""
        return self._driver.read_log_end()

    def _make_table(self, result: Reconciliation) -> Table:
        truth = self._truth
        table = Table("stage")
        table.add_column("expected", justify="right")
        table.add_column("found", justify="right")
        for stage, expected, rows in (
            ("sent", truth.sent, result.sent),
            ("raw", truth.sent, result.raw),
            ("readings", truth.readings, result.readings),
            ("quarantine", truth.garbage, result.quarantine),
            ("duplicates removed", truth.duplicates, result.device_duplicates),
            ("sensor_minutely", len(truth.minutely), result.minutely),
            ("sensor_latest", len(truth.latest), result.latest),
            ("sensor_minutely in PostgreSQL", len(truth.minutely), result.postgres_minutely),
            ("sensor_latest in PostgreSQL", len(truth.latest), result.postgres_latest),
        ):
            table.add_row(stage, f"{expected:,}", f"{rows:,}")
        table.title = f"killed {self._kills} times in {self._seconds():.0f} s"
        table.caption = f"{result.lost} lost, {result.duplicated} duplicated"
        return table

    def _run_and_kill(self, number: int, target: str) -> None:
        rng = Random(f"kill {number} of {self._options.seed}")  # noqa: S311 - a demo, not a secret
        before = driver.read_progress(self._settings, target).done
        self._driver.start()
        self.say(f"driver {number} started")

        def has_finished_a_batch() -> bool:
            return driver.read_progress(self._settings, target).done > before

        def is_inside_batch() -> bool:
            return driver.read_progress(self._settings, target).is_inside_batch

        self._require_soon(
            has_finished_a_batch, _PROGRESS_WITHIN_S, f"`{target}` did not finish a batch"
        )
        delay = rng.random() * _INTO_A_BATCH_S
        self._wait_until(is_inside_batch, _BATCH_WITHIN_S)
        self._wait_until(lambda: False, delay)
        self._driver.kill()
        self._kills += 1
        interrupted = ", ".join(driver.describe_interrupted(self._settings))
        self.say(f"driver {number} killed: {interrupted}")
        self.say(self._describe_counts())

    def _run_to_the_end(self) -> None:
        self._driver.start()
        self.say("last driver started; it will not be killed")

        def is_sent() -> bool:
            return self._sender.sent == len(self._messages)

        def has_caught_up() -> bool:
            # A table may be unreadable while it is written; the next check reads it again.
            with suppress(DeltaError, OSError):
                return reconcile.has_caught_up(self._settings, self._truth)
            return False

        within = len(self._messages) / sender.MESSAGES_PER_SECOND * 2 + 30
        self._require_soon(is_sent, within, "the messages were not all sent")
        self.say(f"all {self._sender.sent:,} messages sent; catching up")
        # The result does not matter here: the reconciliation reports missing and surplus rows.
        self._wait_until(has_caught_up, _CAUGHT_UP_WITHIN_S, every=1.0)
        self._driver.stop()
        self.say("last driver stopped; comparing the tables with the messages")

    def _require_soon(
        self, has_happened: Callable[[], bool], seconds: float, otherwise: str
    ) -> None:
        if not self._wait_until(has_happened, seconds):
            raise DriverEnded(f"{otherwise} within {seconds:.0f} s")

    def _wait_until(
        self, has_happened: Callable[[], bool], seconds: float, every: float = _CHECK_EVERY_S
    ) -> bool:
        """Return whether it happens in time; raise if the driver ends or the sender fails."""
        deadline = time.monotonic() + seconds
        while not has_happened():
            self._driver.check()
            if self._sender.failure is not None:
                raise self._sender.failure
            if time.monotonic() >= deadline:
                return False
            time.sleep(every)
        return True

    def _show_progress(self) -> Live:
        return Live(
            get_renderable=lambda: f"{self._seconds():4.0f} s  {self._describe_counts()}",
            console=self._console,
            refresh_per_second=1,
            transient=True,
        )

    def _describe_counts(self) -> str:
        # A table cannot be counted while it is created or while its server stops: keep the last
        # counts then.
        with suppress(DeltaError, OSError, psycopg.OperationalError):
            self._counts = reconcile.count_rows(self._settings)
        counts = self._counts
        return (
            f"{self._sender.sent:,} sent, {counts.raw:,} raw, {counts.readings:,} readings,"
            f" {counts.quarantine:,} in quarantine, {counts.merged:,} merged,"
            f" {counts.served:,} in PostgreSQL"
        )

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def run(options: DemoOptions) -> int:
    """Play the demo, print the result, and return 0 if no row was lost or duplicated, else 1."""
    began = time.monotonic()
    console = Console(stderr=True)
    home = _make_home(options.home)
    code = 1
    try:
        with (
            _end_on_sigterm(),
            Database(home / "database") as database,
            sender.open_wire(home, options.encoding, kafka=options.kafka) as (settings, send),
        ):
            # The password stays in its file: the driver gets only the path of that file.
            connection = make_conninfo(database.connection, passfile=str(database.pgpass))
            demo = Demo(options, replace(settings, postgres=connection), console, began=began)
            demo.say(f"PostgreSQL started on 127.0.0.1:{database.port}")
            code = _play(demo, send, console)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        if options.home is None and code in (0, _INTERRUPTED):
            shutil.rmtree(home, ignore_errors=True)
        else:
            console.print(f"files kept in {home}", highlight=False, soft_wrap=True)
    return code


def _play(demo: Demo, send: Send, console: Console) -> int:
    try:
        result = demo.play(send)
    except DriverEnded as ended:
        console.print(demo.read_log_end(), markup=False, highlight=False, soft_wrap=True)
        console.print(f"{ended}", markup=False, highlight=False, soft_wrap=True)
        return 1
    for difference in result.differences:
        console.print(difference, markup=False, highlight=False, soft_wrap=True)
    demo.report(result)
    return 0 if result.exact else 1


def _make_home(home: Path | None) -> Path:
    if home is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise OptionInvalid(
            f"the demo needs an empty folder, but `{home}` contains files",
            hint="name a folder that does not exist yet",
        )
    return home.resolve()


@contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demo like Ctrl-C, together with every process that it started."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _choose_targets(options: DemoOptions) -> Iterator[str]:
    """Return the target job of each kill: all jobs in turn, in an order that the seed decides."""
    jobs = list(pipeline.JOBS)
    Random(f"targets {options.seed}").shuffle(jobs)  # noqa: S311 - a demo, not a secret
    return islice(cycle(jobs), options.kills)
