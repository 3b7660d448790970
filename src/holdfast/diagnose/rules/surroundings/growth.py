"""Stage 3: does something grow without bound?"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import spans_contain
from holdfast.model.state import OperatorEvidence

_LONG_CHAIN = 50
_LARGE_LOG = 100 << 20
_MANY_ENTRIES = 1000


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Rows of state changes without a snapshot, large source logs, logs that are not purged."""
    for operator in seen.evidence.operators:
        yield from _find_long_chain(operator)
    yield from _find_large_log(seen)
    for log, spans in (
        ("offsets", seen.evidence.batches.offset_spans),
        ("commits", seen.evidence.batches.commit_spans),
    ):
        count = sum(span.last - span.first + 1 for span in spans)
        if count > _MANY_ENTRIES:
            yield _make_purge_finding(log, count)


def _find_long_chain(operator: OperatorEvidence) -> Iterator[Finding]:
    for store in operator.stores:
        last = max((span.last for span in store.snapshots), default=0)
        length = store.latest_version - last
        if length > _LONG_CHAIN and spans_contain(store.restorable, store.latest_version):
            yield Finding(
                code=Code.STATE_CHAIN_LONG,
                severity=Severity.SLOW,
                text=f"Operator {operator.operator} replays {length:,} changes of its state at"
                " every start: no snapshot was written since.",
                clues=(
                    Clue(
                        file=f"state/{operator.operator}/{store.partition}",
                        expected="a snapshot every few versions",
                        found=f"version {store.latest_version}, last snapshot {last or 'none'}",
                    ),
                ),
                remedies=(
                    (
                        "let a run last longer than `spark.sql.streaming.stateStore."
                        "maintenanceInterval` (60 s), or make that shorter"
                    ),
                ),
            )
            return


def _find_large_log(seen: RuleInput) -> Iterator[Finding]:
    kinds = (FileKind.SOURCE_LOG, FileKind.SOURCE_COMPACT)
    size = sum(seen.evidence.files[kind].bytes for kind in kinds if kind in seen.evidence.files)
    if size > _LARGE_LOG:
        yield Finding(
            code=Code.SOURCE_LOG_LARGE,
            severity=Severity.SLOW,
            text="The logs of file sources name every file ever read, and are read whole at every"
            " start.",
            clues=(
                Clue(file="sources", expected="less than 100 MB", found=f"{size / 1e6:,.0f} MB"),
            ),
            remedies=(
                (
                    "when every file is read, give the job a new name, and so a new checkpoint, and"
                    " a folder for new files"
                ),
            ),
        )


def _make_purge_finding(log: str, count: int) -> Finding:
    return Finding(
        code=Code.LOG_NOT_PURGED,
        severity=Severity.SLOW,
        text=f"The log `{log}` has {count:,} entries, and Spark lists all of them at every start.",
        clues=(
            Clue(file=log, expected="about 100 entries", found=f"{count:,} entries"),
        ),
        remedies=("look at `spark.sql.streaming.minBatchesToRetain`",),
    )  # fmt: skip
