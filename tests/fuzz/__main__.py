"""Fuzz every decoder: `make fuzz SECONDS=120 [ARGS="--only 'offset log'"]`.

Each decoder is given damaged examples (Hypothesis) for half of the time and bytes that atheris
makes by watching which lines they reach for the other half; without atheris, the first alone. An
exception ends the run with the bytes that raised it.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.formats import FORMATS
from tests.property.test_decoders import mutated, texts

_ROUND = 500
_LONGEST = 1 << 16


def with_hypothesis(name: str, seconds: float) -> int:
    """How many damaged examples were tried; raises what the decoder raised."""
    spec = FORMATS[name]
    tried = 0

    @settings(
        max_examples=_ROUND,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated(spec.examples))
    def attempt(data: bytes) -> None:
        nonlocal tried
        tried += 1
        check(name, data)

    began, number = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        seed(number + os.getpid())(attempt)()
        number += 1
    return tried


def check(name: str, data: bytes) -> None:
    """Decode, and hold on to what every decoder promises."""
    found = FORMATS[name].decode(data)
    if name not in {"names", "lease"}:
        for text in texts(found):
            text.encode("utf-8")


def with_atheris(name: str, seconds: float) -> int:
    """How many inputs atheris ran, in a process of its own: it ends by leaving it."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, example in enumerate(FORMATS[name].examples):
            (corpus / str(number)).write_bytes(example)
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.guided", name, f"-max_total_time={int(seconds)}",
             f"-max_len={_LONGEST}", "-print_final_stats=1", f"-artifact_prefix={folder}/", corpus],
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            crash = next(iter(Path(folder).glob("crash-*")), None)
            bytes_ = crash.read_bytes() if crash else b""
            raise AssertionError(f"{name}: {bytes_!r}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        ran = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        return int(ran[-1].split()[-1]) if ran else 0


def main() -> None:
    """Fuzz the decoders one after another and say how much was tried."""
    arguments = argparse.ArgumentParser(prog="make fuzz")
    arguments.add_argument("--seconds", type=float, default=120.0, help="for each decoder")
    arguments.add_argument("--only", choices=sorted(FORMATS), action="append")
    chosen = arguments.parse_args()
    guided = importlib.util.find_spec("atheris") is not None
    share = chosen.seconds / 2 if guided else chosen.seconds
    for name in chosen.only or FORMATS:
        damaged = with_hypothesis(name, share)
        made = with_atheris(name, share) if guided else 0
        print(f"{name:26} {damaged:>10,} damaged {made:>12,} guided  no exception", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
