"""A failed query is told in one sentence: the line that says most, and whose it is."""

import pytest

from holdfast.errors import QueryFailed
from holdfast.model.definition import AvailableNow, Declared, Job, OutputMode
from holdfast.model.ids import JobName
from holdfast.run import failure

_JOB = Job(
    name=JobName("orders"),
    function=lambda rows: rows,
    reads=(),
    writes=(),
    trigger=AvailableNow(),
    output_mode=OutputMode.APPEND,
    settings={},
    declared=Declared(file="orders.py", line=1),
)
_IN_A_WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/jobs/orders.py", line 7, in <lambda>
ZeroDivisionError: integer division or modulo by zero
"""
_IN_JAVA = """[STREAM_FAILED] Query [id = 1] terminated with exception: Connection refused
Caused by: java.io.IOException: cannot connect
Caused by: java.net.ConnectException: Connection refused
"""


@pytest.mark.parametrize(
    ("error", "inner", "said"),
    [
        (Exception(_IN_A_WORKER), None, "ZeroDivisionError: integer division or modulo by zero"),
        (Exception(_IN_JAVA), None, "ConnectException: Connection refused"),
        (Exception("Query failed"), KeyError("amount"), "KeyError: 'amount'"),
        (ValueError(), None, "ValueError"),
        (
            Exception("[UNRESOLVED_COLUMN] No column `x`. SQLSTATE: 42703;\n'Project ['x]"),
            None,
            "[UNRESOLVED_COLUMN] No column `x`. SQLSTATE: 42703",
        ),
    ],
)
def test_the_line_that_says_most_is_told_whole(
    error: Exception, inner: Exception | None, said: str
) -> None:
    assert failure.explained(_JOB, error, inner).error.message.endswith(f": {said}")


def test_it_is_told_of_the_job_that_failed() -> None:
    with pytest.raises(QueryFailed, match="expected job `orders` to run"), failure.telling(_JOB):
        raise KeyError("amount")


@pytest.mark.parametrize("before", [0, 200])
def test_no_secret_is_told_while_a_failed_job_is_tried_again(before: int) -> None:
    url = f"{'x' * before} jdbc:mariadb://db/shop?user=shop&password={'hunter2' * 9}"
    said = failure.explained(_JOB, Exception("Query failed"), OSError(f"no answer of {url}"))
    assert "OSError: no answer of" in said.error.message
    assert "hunter2" not in said.error.message
