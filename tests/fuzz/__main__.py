"""Fuzz every decoder until each has had its time: `make fuzz SECONDS=3600 [ARGS="--jobs 2"]`.

A decoder is given damaged examples (Hypothesis) and, in turns with them, bytes that atheris makes
by watching which lines they reach; without atheris, the first alone. The processor time of each is
added up in `totals.json`, so that an hour may be had in many sittings; it begins anew when the code
of the decoder changes. An exception ends the run with the bytes that raised it.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.formats import FORMATS
from tests.fuzz import seeds, totals

_TURN = 150
_LONGEST = 1 << 16
_CORPORA = Path(".fuzz")


def main() -> None:
    """Fuzz the decoders, the one with the least time first, and say how much was tried."""
    arguments = argparse.ArgumentParser(prog="make fuzz")
    arguments.add_argument("--seconds", type=float, default=120.0, help="for each decoder")
    arguments.add_argument("--only", choices=sorted(FORMATS), action="append")
    arguments.add_argument("--jobs", type=int, default=1, help="decoders at a time")
    chosen = arguments.parse_args()
    names = chosen.only or list(FORMATS)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        work = _Work(names, chosen.seconds)
        for ended in [pool.submit(work.all) for _ in range(chosen.jobs)]:
            ended.result()
    for name in names:
        print(totals.line(name))  # noqa: T201


class _Work:
    """The decoders that still want time; each is in one hand at a time."""

    def __init__(self, names: list[str], seconds: float) -> None:
        self._waiting = set(names)
        self._seconds = seconds
        self._failed = False
        self._lock = threading.Lock()
        self._guided = importlib.util.find_spec("atheris") is not None

    def all(self) -> None:
        while (name := self._taken()) is not None:
            had = totals.of(name)
            left = self._seconds - had.seconds
            guided = self._guided and had.guided_seconds < had.seconds / 2
            turn = max(2, min(_TURN, left, self._seconds / 2))
            try:
                seconds, tried = _guided(name, turn) if guided else _damaged(name, turn)
            except BaseException:
                self._failed = True
                raise
            with self._lock:
                totals.add(name, seconds, tried, guided=guided)
                print(totals.line(name), flush=True)  # noqa: T201
                self._waiting.add(name)

    def _taken(self) -> str | None:
        with self._lock:
            waiting = () if self._failed else self._waiting
            short = [name for name in waiting if totals.of(name).seconds < self._seconds]
            name = min(short, key=lambda one: totals.of(one).seconds, default=None)
            self._waiting.discard(name or "")
            return name


def _damaged(name: str, seconds: float) -> tuple[float, int]:
    spent, said, _ = _spent([sys.executable, "-m", "tests.fuzz.damaged", name, str(seconds)])
    return spent, int(said.split()[-1])


def _guided(name: str, seconds: float) -> tuple[float, int]:
    """In a process of its own: atheris ends by leaving it. What it finds is kept for the next."""
    corpus = _CORPORA / name.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(seeds.of(name)):
        (corpus / str(number)).write_bytes(example)
    command = [
        sys.executable, "-m", "tests.fuzz.guided", name, f"-max_total_time={int(seconds)}",
        f"-max_len={_LONGEST}", "-print_final_stats=1", f"-artifact_prefix={corpus}-", str(corpus),
    ]  # fmt: skip
    spent, _, told = _spent(command)
    ran = [line for line in told.splitlines() if "number_of_executed_units" in line]
    return spent, int(ran[-1].split()[-1]) if ran else 0


def _spent(command: list[str]) -> tuple[float, str, str]:
    """The processor time that a command took, and all that it said."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=said, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in (said, told):
            stream.seek(0)
        texts = said.read(), told.read()
    if process.returncode:
        raise AssertionError(f"{command}: {texts[0][-2000:]}{texts[1][-6000:]}")
    return used.ru_utime + used.ru_stime, *texts


if __name__ == "__main__":
    main()
