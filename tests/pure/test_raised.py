"""Of an error that ended a run, the line that says what went wrong."""

import pytest

from holdfast.report import error_line

FOREACH_BATCH = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/x/job.py", line 7, in write
    connect()
ValueError: cannot connect to `db`

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
\tat py4j.reflection.PythonProxyHandler.invoke(PythonProxyHandler.java:108)
"""  # noqa: E501
STREAM_FAILED = (
    "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = a, runId ="
    " b] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the"
    " user provided function in foreach batch sink. Reason: "
)
WORKER = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/job.py", line 3, in halved
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:581)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
"""
CHAINED = """\
py4j.Py4JException: Return Message: Traceback (most recent call last):
  File "/x/job.py", line 3, in write
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/job.py", line 5, in write
job.NotFound: no `a` in the row
second line of the message

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""
JAVA_BELOW = """\
py4j.Py4JException: Return Message: Traceback (most recent call last):
  File "/x/py4j/protocol.py", line 327, in get_return_value
py4j.protocol.Py4JJavaError: An error occurred while calling o67.save.
: java.sql.SQLException: no such table
\tat org.postgresql.Driver.connect(Driver.java:1)
"""
WORKER_BELOW = """\
Traceback (most recent call last):
  File "/x/job.py", line 5, in write
pyspark.errors.PythonException:
  An exception was thrown from the Python worker.
"""
GROUP = """\
x: Return Message:   + Exception Group Traceback (most recent call last):
  |   File "/x/job.py", line 3, in write
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/job.py", line 2, in write
    | ValueError: the inner one
    +------------------------------------
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FOREACH_BATCH, "ValueError: cannot connect to `db`"),
        (STREAM_FAILED + FOREACH_BATCH, "ValueError: cannot connect to `db`"),
        (WORKER, "ZeroDivisionError: division by zero"),
        (CHAINED, "job.NotFound: no `a` in the row"),
        (JAVA_BELOW, "java.sql.SQLException: no such table"),
        (
            WORKER_BELOW,
            "pyspark.errors.PythonException: An exception was thrown from the Python worker.",
        ),
        (GROUP, "ValueError: the inner one"),
        (f"{FOREACH_BATCH}Caused by: {WORKER}", "ZeroDivisionError: division by zero"),
        (
            "java.io.IOException: gone\n\tat x.y(Z.java:1)\nCaused by: z",
            "java.io.IOException: gone",
        ),
        ("\n  a: b\nc", "a: b"),
        ("a: Traceback (most recent call last):\n  File", "a: Traceback (most recent call last):"),
        (
            "a: Traceback (most recent call last):\n  File\nDriver stacktrace:\n",
            "a: Traceback (most recent call last):",
        ),
        ("Traceback (most recent call last):\n  File\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("", ""),
    ],
)
def test_the_line_that_says_what_went_wrong(error: str, line: str) -> None:
    assert error_line.extract(error) == line


def test_a_secret_is_taken_out_before_the_line_is_cut() -> None:
    shown = error_line.extract(f"x: {'a' * 280} https://0123456789abcdef@sentry.example/7 and more")
    assert shown.endswith("https://(redacte…")


def test_a_long_traceback_is_shortened_and_still_says_what_went_wrong() -> None:
    frames = '  File "/x/job.py", line 1, in f\n    g()\n' * 40
    deep = CHAINED.replace('  File "/x/job.py", line 5', f'{frames}  File "/x/job.py", line 5')
    short = error_line.shorten(deep)
    assert len(short.splitlines()) == 23
    assert (
        error_line.extract(short) == error_line.extract(deep) == "job.NotFound: no `a` in the row"
    )
    assert error_line.shorten(CHAINED) == CHAINED.rstrip("\n")
