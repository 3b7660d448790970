"""Run Spark work in a thread of its own, so that Ctrl-C ends a command at once and quietly.

In the main thread, Ctrl-C would interrupt Py4J in the middle of a call, and Spark's own handler
would ask a JVM that may not have started yet to cancel its jobs: both print pages of stack traces.
"""

import contextlib
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_END_SECONDS = 10.0
_LOOK_SECONDS = 0.02


def run(work: Callable[[], T]) -> T:
    """Return the result of the work or raise its error; on Ctrl-C, end the JVM and do not wait."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, name="holdfast-spark", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        _end_jvm(thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _end_jvm(thread: threading.Thread) -> None:
    """End the JVM before its input is removed; while it starts, it has no handle yet."""
    from pyspark import SparkContext

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()  # Py4J logs at length that the JVM went away
    deadline = time.monotonic() + _END_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  nobody else knows it
        if isinstance(process, subprocess.Popen):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            return
        time.sleep(_LOOK_SECONDS)
