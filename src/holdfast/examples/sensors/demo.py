"""The demo: sensors that send, a driver that is killed again and again, and every row counted.

The messages are sent in as many shares as the driver has lives. While a share is being sent, the
driver is left to work until one of its jobs has visibly got on, and is then killed in the middle
of that job's next batch; another job each time. After the last start everything must be caught
up, and every table is reconciled with what was sent.

    <home>/landing/ or kafka/   what was sent
    <home>/tables/              five Delta tables
    <home>/database/            a PostgreSQL server, with the last two of them once more
    <home>/checkpoints/         the checkpoints and records of three jobs
    <home>/driver.log           what the drivers said
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
_LOOK_EVERY_S = 0.01
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the demo is to do; the same seed sends the same messages and aims at the same jobs."""

    kafka: bool = False
    seed: int = 1
    kills: int = 3
    messages: int = 24_000
    json: bool = False
    home: Path | None = None
    encoding: Encoding = Encoding.JSON


class Demo:
    """One run of the demo in its home."""

    def __init__(
        self, wishes: DemoOptions, settings: Settings, console: Console, *, began: float
    ) -> None:
        self._options = wishes
        self._settings = settings
        self._console = console
        self._began = began
        self._messages = tuple(
            simulator.generate_messages(wishes.seed, wishes.messages, encoding=wishes.encoding)
        )
        self._truth = simulator.compute_truth(self._messages)
        self._driver = DriverProcess(settings)
        self._sender = Sender(lambda *_: None, self._messages)
        self._counts = Counts()
        self._kills = 0

    def play(self, send: Send) -> Reconciliation:
        """Send everything, kill the driver as often as wished, and reconcile."""
        self._sender = Sender(send, self._messages)
        lives = self._options.kills + 1
        with ExitStack() as cleanup:
            cleanup.callback(self._driver.kill)
            self._sender.start()
            cleanup.callback(self._sender.stop)
            cleanup.enter_context(self._shown())
            for life, target in enumerate(_choose_targets(self._options), start=1):
                self._sender.allowed = len(self._messages) * life // lives
                self._live_until_killed(life, target)
            self._sender.allowed = len(self._messages)
            self._live_to_the_end()
        return reconcile.compare(self._messages, self._truth, self._settings)

    def report(self, found: Reconciliation) -> None:
        """Print the result: one table, or one JSON object for programs."""
        if not self._options.json:
            Console().print(self._table(found))
            return
        rows = asdict(found)
        differences = rows.pop("differences")
        total = {name: rows.pop(name) for name in ("sent", "lost", "duplicated")}
        total |= {"kills": self._kills, "seconds": round(self._seconds(), 1)}
        print(json.dumps({**total, "rows": rows, "differences": differences}))  # noqa: T201

    def say(self, text: str) -> None:
        """Tell how far it is."""
        self._console.print(f"{self._seconds():4.0f} s  {text}", highlight=False, soft_wrap=True)

    def read_log_end(self) -> str:
        """The end of what the drivers said."""
        return self._driver.read_log_end()

    def _table(self, found: Reconciliation) -> Table:
        truth = self._truth
        table = Table("stage")
        table.add_column("expected", justify="right")
        table.add_column("found", justify="right")
        for stage, expected, rows in (
            ("sent", truth.sent, found.sent),
            ("raw", truth.sent, found.raw),
            ("readings", truth.readings, found.readings),
            ("quarantine", truth.garbage, found.quarantine),
            ("removed, sent twice", truth.duplicates, found.device_duplicates),
            ("sensor_minutely", len(truth.minutely), found.minutely),
            ("sensor_latest", len(truth.latest), found.latest),
            ("sensor_minutely in PostgreSQL", len(truth.minutely), found.postgres_minutely),
            ("sensor_latest in PostgreSQL", len(truth.latest), found.postgres_latest),
        ):
            table.add_row(stage, f"{expected:,}", f"{rows:,}")
        table.title = f"killed {self._kills} times in {self._seconds():.0f} s"
        table.caption = f"{found.lost} lost, {found.duplicated} duplicated"
        return table

    def _live_until_killed(self, life: int, target: str) -> None:
        rng = Random(f"kill {life} of {self._options.seed}")  # noqa: S311 - a demo, not a secret
        before = driver.read_progress(self._settings, target).done
        self._driver.start()
        self.say(f"driver {life} started")

        def got_on() -> bool:
            return driver.read_progress(self._settings, target).done > before

        def inside() -> bool:
            return driver.read_progress(self._settings, target).inside

        self._wait(got_on, _PROGRESS_WITHIN_S, f"`{target}` to finish a batch")
        moment = rng.random() * _INTO_A_BATCH_S
        self._until(inside, _BATCH_WITHIN_S)
        self._until(lambda: False, moment)
        self._driver.kill()
        self._kills += 1
        self.say(f"driver {life} killed: " + ", ".join(driver.describe_interrupted(self._settings)))
        self.say(self._so_far())

    def _live_to_the_end(self) -> None:
        self._driver.start()
        self.say("last driver started, to stay")

        def sent() -> bool:
            return self._sender.sent == len(self._messages)

        def caught_up() -> bool:
            # A table that is just being written may not be readable; the next look will tell.
            with suppress(DeltaError, OSError):
                return reconcile.has_caught_up(self._settings, self._truth)
            return False

        self._wait(sent, len(self._messages) / sender.A_SECOND * 2 + 30, "everything to be sent")
        self.say(f"all {self._sender.sent:,} messages sent, catching up")
        # A surplus, too, shows in the reconciliation: whether it was reached decides nothing here.
        self._until(caught_up, _CAUGHT_UP_WITHIN_S, every=1.0)
        self._driver.stop()
        self.say("last driver stopped, reconciling")

    def _wait(self, happened: Callable[[], bool], seconds: float, what: str) -> None:
        if not self._until(happened, seconds):
            raise DriverEnded(f"expected {what} within {seconds:.0f} s, found that it did not")

    def _until(
        self, happened: Callable[[], bool], seconds: float, every: float = _LOOK_EVERY_S
    ) -> bool:
        """Whether it happens in time; raises if the driver ends or the sender fails meanwhile."""
        deadline = time.monotonic() + seconds
        while not happened():
            self._driver.check()
            if self._sender.failure is not None:
                raise self._sender.failure
            if time.monotonic() >= deadline:
                return False
            time.sleep(every)
        return True

    def _shown(self) -> Live:
        return Live(
            get_renderable=lambda: f"{self._seconds():4.0f} s  {self._so_far()}",
            console=self._console,
            refresh_per_second=1,
            transient=True,
        )

    def _so_far(self) -> str:
        # A table that is just being created cannot be counted, nor one whose server is about to
        # end; the next look will.
        with suppress(DeltaError, OSError, psycopg.OperationalError):
            self._counts = reconcile.count_rows(self._settings)
        found = self._counts
        return (
            f"{self._sender.sent:,} sent, {found.raw:,} raw, {found.readings:,} readings,"
            f" {found.quarantine:,} in quarantine, {found.merged:,} merged,"
            f" {found.served:,} served by PostgreSQL"
        )

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def run(wishes: DemoOptions) -> int:
    """Play the demo and print what came of it; 0 if nothing was lost or duplicated, else 1."""
    began = time.monotonic()
    console = Console(stderr=True)
    home = _make_home(wishes.home)
    code = 1
    try:
        with (
            _end_on_sigterm(),
            Database(home / "database") as database,
            sender.open_wire(home, wishes.encoding, kafka=wishes.kafka) as (settings, send),
        ):
            # The password stays in its file: the driver is told where that is, and no more.
            served = make_conninfo(database.connection, passfile=str(database.pgpass))
            demo = Demo(wishes, replace(settings, postgres=served), console, began=began)
            demo.say(f"PostgreSQL started on 127.0.0.1:{database.port}")
            code = _play(demo, send, console)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        if wishes.home is None and code in (0, _INTERRUPTED):
            shutil.rmtree(home, ignore_errors=True)
        else:
            console.print(f"kept: {home}", highlight=False, soft_wrap=True)
    return code


def _play(demo: Demo, send: Send, console: Console) -> int:
    try:
        found = demo.play(send)
    except DriverEnded as ended:
        console.print(demo.read_log_end(), markup=False, highlight=False, soft_wrap=True)
        console.print(f"{ended}", markup=False, highlight=False, soft_wrap=True)
        return 1
    for difference in found.differences:
        console.print(difference, markup=False, highlight=False, soft_wrap=True)
    demo.report(found)
    return 0 if found.exact else 1


def _make_home(wished: Path | None) -> Path:
    if wished is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    wished.mkdir(parents=True, exist_ok=True)
    if any(wished.iterdir()):
        raise OptionInvalid(
            f"expected an empty folder as the demo's home, found files in `{wished}`",
            hint="name a folder that does not exist yet",
        )
    return wished.resolve()


@contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with everything that it has started."""

    def told(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, told)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _choose_targets(wishes: DemoOptions) -> Iterator[str]:
    """The job to be hit by each kill: all jobs in turn, in an order that the seed decides."""
    jobs = list(pipeline.JOBS)
    Random(f"targets {wishes.seed}").shuffle(jobs)  # noqa: S311 - a demo, not a secret
    return islice(cycle(jobs), wishes.kills)
