"""The `holdfast` command from tests: inside the test's own process, or as a user starts it.

A start of Python is most of the time that a command takes, so only what is about the process (a
terminal, a pipe, what is loaded) starts one.
"""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
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


def on_terminal(
    command: Sequence[str], stream: str, variables: Mapping[str, str], columns: int = 80
) -> str:
    """What a command writes to one of its streams, which is a terminal; it must end well."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    left_out = {"NO_COLOR", "COLUMNS"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: inner}
    with subprocess.Popen(
        command,
        env={**environment, **variables},
        stdout=streams["stdout"],
        stderr=streams["stderr"],
    ) as process:
        os.close(inner)
        shown = b""
        try:
            while part := os.read(outer, 65536):
                shown += part
        except OSError:
            pass  # how Linux tells that the other end is closed
    os.close(outer)
    assert process.returncode == 0
    return shown.decode()
