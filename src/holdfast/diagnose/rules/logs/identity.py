"""Stage 3: does the checkpoint know which query it belongs to?

`metadata` holds the query id, which sinks of Spark's own take for the name of the writer.
"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion

_REFUSES = SparkVersion(4, 2)


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """A `metadata` file that is missing or says nothing."""
    evidence = seen.evidence
    damaged = next((one for one in evidence.unreadable if one.path == "metadata"), None)
    if damaged is not None and not damaged.is_unread:
        yield Finding(
            code=Code.METADATA_UNREADABLE,
            severity=Severity.BLOCKS,
            text="`metadata` cannot be read, so Spark does not start.",
            clues=(Clue(file="metadata", expected='`{"id":"<uuid>"}`', found=damaged.reason),),
            remedies=(_advise_restore(seen),),
        )
    if FileKind.METADATA in evidence.files:
        return
    if evidence.batches.last_planned is None and evidence.batches.last_committed is None:
        return
    refused = seen.restart.starting.spark >= _REFUSES
    effect = (
        f"Spark {seen.restart.starting.spark} refuses to start"
        if refused
        else "Spark gives the query a new id, and a sink that knows it by the old one writes twice;"
        f" Spark {_REFUSES} or later refuses to start"
    )
    yield Finding(
        code=Code.METADATA_MISSING,
        severity=Severity.BLOCKS if refused else Severity.DUPLICATES,
        text=f"There are batches and no file `metadata`: {effect}.",
        clues=(Clue(file="metadata", expected="the query's id", found="no such file"),),
        remedies=(_advise_restore(seen),),
    )


def _advise_restore(seen: RuleInput) -> str:
    known = getattr(seen.evidence.query_id, "value", "")
    told = known or "<the query's id, from its logs or the sink's ledger>"
    # Before 3.2 Spark holds the file against its checksum, if that is there.
    return (
        "remove `.metadata.crc`, if it is there, and write `metadata` anew, one line without a line"
        f' end: `{{"id":"{told}"}}`'
    )
