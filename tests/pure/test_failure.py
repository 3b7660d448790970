"""A failed query is reported in one sentence, with the job and the line that explains most."""

import pytest

from holdfast.errors import OffsetsUnreadable, QueryFailed
from holdfast.model.definition import AvailableNow, DeclarationSite, Job, OutputMode
from holdfast.model.ids import JobName
from holdfast.run.query import failure

_JOB = Job(
    name=JobName("orders"),
    function=lambda rows: rows,
    reads=(),
    writes=(),
    trigger=AvailableNow(),
    output_mode=OutputMode.APPEND,
    settings={},
    declared_at=DeclarationSite(file="orders.py", line=1),
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
    assert failure.explain(_JOB, error, inner).error.message.endswith(f": {said}")


def test_it_is_told_of_the_job_that_failed() -> None:
    with (
        pytest.raises(QueryFailed, match="job `orders` failed: KeyError"),
        failure.translate_errors(_JOB),
    ):
        raise KeyError("amount")


@pytest.mark.parametrize("before", [0, 200])
def test_no_secret_is_told_while_a_failed_job_is_tried_again(before: int) -> None:
    url = f"{'x' * before} jdbc:mariadb://db/shop?user=shop&password={'hunter2' * 9}"
    said = failure.explain(_JOB, Exception("Query failed"), OSError(f"no answer of {url}"))
    assert "OSError: no answer of" in said.error.message
    assert "hunter2" not in said.error.message


class _Captured(Exception):
    """As pyspark keeps an exception of Java that it has no class for: its text, and its cause."""

    def __init__(self, said: str, cause: Exception | None = None) -> None:
        super().__init__(said)
        self._desc = said
        self._cause = cause


@pytest.mark.parametrize(
    "said",
    [
        "java.net.SocketTimeoutException: UNSUPPORTED_FEATURE is a column, and doesn't exist",
        "An exception was thrown from the Python worker.\nValueError: AnalysisException: no answer",
        "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] S3 timed out",
        "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] S3 timed out",
        "java.io.IOException: No space left on device",
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: does not host this topic",
        "io.delta.exceptions.MetadataChangedException: [DELTA_SCHEMA_CHANGED] Please restart",
    ],
)
def test_what_may_pass_is_tried_again_whatever_its_text_says(said: str) -> None:
    failed = _Captured(f"[STREAM_FAILED] terminated with exception: {said}", _Captured(said))
    assert failure.explain(_JOB, failed, None).curable
    assert failure.explain(_JOB, Exception("failed"), failed).curable


@pytest.mark.parametrize(
    "name",
    [
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    ],
)
def test_what_spark_names_as_lasting_is_not_tried_again(name: str) -> None:
    cause = _Captured(f"org.apache.spark.SparkException: [{name}] It is so.")
    failed = _Captured("[STREAM_FAILED] Query terminated", _Captured("java.lang.Error: x", cause))
    assert not failure.explain(_JOB, failed, None).curable


@pytest.mark.parametrize("error", [TypeError("flaky"), KeyError("k"), NameError("n")])
def test_an_error_of_python_is_tried_again(error: Exception) -> None:
    assert failure.explain(_JOB, Exception("Query failed"), error).curable


def test_an_offset_entry_that_is_not_there_is_cured_by_a_restart() -> None:
    missing = OffsetsUnreadable("expected offsets/3, found none", hint="")
    assert failure.explain(_JOB, Exception("Query failed"), missing).curable
