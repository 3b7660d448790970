"""Does the checkpoint know which query it belongs to?

`metadata` contains the query id. Spark's own sinks identify the writer by this id.
"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion

_REFUSES_SINCE = SparkVersion(4, 2)


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if `metadata` is missing or unreadable."""
    evidence = given.evidence
    damaged = next((file for file in evidence.unreadable if file.path == "metadata"), None)
    if damaged is not None and not damaged.is_unread:
        yield Finding(
            code=Code.METADATA_UNREADABLE,
            severity=Severity.BLOCKS,
            text="A restart will fail: `metadata` cannot be read.",
            clues=(Clue(file="metadata", expected='`{"id":"<uuid>"}`', found=damaged.reason),),
            remedies=(_advise_restore(given),),
        )
    if FileKind.METADATA in evidence.files:
        return
    if evidence.batches.last_planned is None and evidence.batches.last_committed is None:
        return
    spark = given.restart.starting.spark
    refused = spark >= _REFUSES_SINCE
    text = (
        f"A restart will fail: there are batches but no file `metadata`, and Spark {spark} refuses"
        " to start."
        if refused
        else "A restart will give the query a new id, and a sink that knows the old id will write"
        " rows twice: there are batches but no file `metadata`."
        f" Spark {_REFUSES_SINCE} or later refuses to start."
    )
    yield Finding(
        code=Code.METADATA_MISSING,
        severity=Severity.BLOCKS if refused else Severity.DUPLICATES,
        text=text,
        clues=(Clue(file="metadata", expected="the query's id", found="no such file"),),
        remedies=(_advise_restore(given),),
    )


def _advise_restore(given: RuleInput) -> str:
    known = getattr(given.evidence.query_id, "value", "")
    query_id = known or "<the query's id, from its logs or the sink's ledger>"
    # Before 3.2 Spark compares the file with its checksum, if there is one.
    return (
        "remove `.metadata.crc`, if it exists, and write `metadata` again, as one line without a"
        f' newline at its end: `{{"id":"{query_id}"}}`'
    )
