"""The `holdfast` command from tests: inside the test's own process, or as a user starts it.

A start of Python is most of the time that a command takes, so only what is about the process (a
terminal, a pipe, what is loaded) starts one.
"""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from holdfast.cli.main import main


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def holdfast(*arguments: str) -> Done:
    """Run a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    out.flush()
    err.flush()
    code = ended.value.code
    assert isinstance(code, int)
    return Done(code, *(file.buffer.getvalue().decode("utf-8") for file in (out, err)))


def started(*arguments: str) -> Done:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return Done(done.returncode, done.stdout, done.stderr)
