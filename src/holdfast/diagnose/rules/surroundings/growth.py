"""Does something grow without bound?"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import spans_contain
from holdfast.model.state import OperatorEvidence

_LONG_CHAIN = 50
_LARGE_LOG = 100 << 20
_MANY_ENTRIES = 1000


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield many state changes without a snapshot, large source logs, and logs never purged."""
    for operator in given.evidence.operators:
        yield from _find_long_chain(operator)
    yield from _find_large_log(given)
    for log, spans in (
        ("offsets", given.evidence.batches.offset_spans),
        ("commits", given.evidence.batches.commit_spans),
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
                text=f"Every start is slow, because operator {operator.operator} replays"
                f" {length:,} changes of its state: no snapshot has been written since.",
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
                        "maintenanceInterval` (60 s), or shorten the interval"
                    ),
                ),
            )
            return


def _find_large_log(given: RuleInput) -> Iterator[Finding]:
    files = given.evidence.files
    kinds = (FileKind.SOURCE_LOG, FileKind.SOURCE_COMPACT)
    size = sum(files[kind].bytes for kind in kinds if kind in files)
    if size > _LARGE_LOG:
        yield Finding(
            code=Code.SOURCE_LOG_LARGE,
            severity=Severity.SLOW,
            text="Every start is slow, because Spark reads the whole logs of file sources, and"
            " these logs name every file ever read.",
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
        text=f"Every start is slow, because Spark lists all {count:,} entries of the log `{log}`.",
        clues=(
            Clue(file=log, expected="about 100 entries", found=f"{count:,} entries"),
        ),
        remedies=("check `spark.sql.streaming.minBatchesToRetain`",),
    )  # fmt: skip
