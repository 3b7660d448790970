"""Is a batch planned and not committed?

Spark runs exactly the last planned batch again, over its logged range, and treats every batch
before it as done. For Kinesis only the beginning of the range is logged. In continuous mode Spark
reads again whatever came after the last commit.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.model import advice
from holdfast.model.evidence import Batches
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.restart import SinkAction
from holdfast.model.source_offset import KafkaOffset
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import continuous, empty_batch, sockets, state_load
from holdfast.spark import exceptions, pinned

_V4_1 = SparkVersion(4, 1)
_RELEASE_OF_4_1 = re.compile(r"4\.1\.(\d{1,3})\b.*")
_LAST_FAILING_PATCH = 2


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield the batch that will run again, and the batches that will not."""
    restart, batches = given.restart, given.evidence.batches
    if restart.starting.continuous:
        yield from _find_epochs(batches)
        return
    if not restart.rerun or isinstance(restart.batch, Unknown):
        return
    planned, committed = restart.batch, batches.last_committed
    if committed is not None and committed > planned:
        return
    error = restart.error
    if error is not None and error.condition == exceptions.REPARTITION:
        yield _make_repartition_finding(given, planned)
        return
    yield _make_pending_finding(given, planned)
    skipped = [batch for batch in batches.pending if batch != planned and not batches.lacks_commits]
    if skipped and not restart.starting.asynchronous:
        if empty_batch.all_write_nothing(given.evidence, skipped):
            yield _make_empty_skipped_finding(skipped, planned)
        else:
            yield _make_skipped_finding(given, skipped, planned)


def _find_epochs(batches: Batches) -> Iterator[Finding]:
    if not batches.pending:
        return
    first, last, committed = batches.pending[0], batches.pending[-1], batches.last_committed
    which = f"Epoch {first} is" if first == last else f"Epochs {first} to {last} are"
    begins = (
        f"begin at the end of epoch {committed}"
        if committed is not None
        else "begin at epoch 0, at the beginning of the source"
    )
    yield Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.UNDEFINED,
        text=f"A restart in continuous mode will {begins}, read as far as there is data, and write"
        f" again what was written since. {which} logged but not committed.",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the epoch", found="no such file"),
        ),
        remedies=(
            "check which rows the sink has from there on before you start the query",
            (
                f"first move {continuous.name_entries(first, last)} out of the checkpoint: Spark"
                " does not replace these entries, and commits an epoch with the logged end, even if"
                " it has not read that far again; after a second crash it would skip the rest"
            ),
        ),
    )


def _make_repartition_finding(given: RuleInput, planned: int) -> Finding:
    """Return the finding for a batch that repartitions the state and did not finish."""
    was, now = (
        given.evidence.offset_entries[BatchId(batch)].settings[pinned.SHUFFLE_PARTITIONS]
        for batch in (planned - 1, planned)
    )
    return Finding(
        code=Code.REPARTITION_UNFINISHED,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: batch {planned} repartitions the state from {was} to {now}"
        " partitions, and did not finish.",
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected=f"`{pinned.SHUFFLE_PARTITIONS}` is {was}",
                found=f"it is {now}",
            ),
        ),
        remedies=("repartition the state again, to the same number, and let it finish",),
    )


def _make_pending_finding(given: RuleInput, planned: int) -> Finding:
    actions = {sink.act for sink in given.restart.sinks}
    exact = bool(actions) and actions <= {SinkAction.WRITE, SinkAction.SKIP, SinkAction.NOTHING}
    if empty_batch.writes_nothing(given.evidence):
        return _make_empty_pending_finding(given, planned)
    effect = (
        "Every sink keeps a ledger, so the batch is written once"
        if exact
        else "A sink that cannot tell it from a new batch may get it twice"
    )
    spark = given.restart.starting.spark
    outcome = sockets.find_outcome(given.evidence, spark)
    if outcome is sockets.SocketOutcome.LOSES_AND_FAILS:
        effect = "Its rows are lost unless the sink has them, because a socket sends nothing twice"
    cause = (
        "Spark 2.1 keeps no commit log, so it is unknown whether the batch finished"
        if given.evidence.batches.no_commit_log
        else "the batch is planned but not committed"
    )
    check = f"check whether the sink has rows of batch {planned} before you start the query"
    return Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.NOTE if exact else Severity.UNDEFINED,
        text=f"A restart will run batch {planned} again {_describe_range(given)}: {cause}."
        f" {effect}.",
        clues=(
            Clue(file=f"commits/{planned}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(*([] if exact else [check]), *_advise_second_start(given)),
    )


def _make_empty_pending_finding(given: RuleInput, planned: int) -> Finding:
    return Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.NOTE,
        text=f"A restart will run batch {planned} again and write nothing: the batch is planned but"
        " not committed, and has no rows to read.",
        clues=(
            Clue(file=f"commits/{planned}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=tuple(_advise_second_start(given)),
    )


def _make_empty_skipped_finding(skipped: Sequence[BatchId], planned: int) -> Finding:
    first, last = skipped[0], skipped[-1]
    which = f"batch {first}" if first == last else f"batches {first} to {last}"
    return Finding(
        code=Code.BATCHES_SKIPPED,
        severity=Severity.NOTE,
        text=f"A restart will run only batch {planned} again, and treat {which} as done. Nothing is"
        f" lost, because {which} had no rows to read.",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(),
    )


def _advise_second_start(given: RuleInput) -> Iterator[str]:
    """Yield what to expect of Spark 4.1 with Kafka.

    After the batch it reports metrics that it never fetched. The patch version is known only if a
    record of the runs names it.
    """
    version = given.evidence.spark_version
    patch = _RELEASE_OF_4_1.fullmatch(version.value) if isinstance(version, Known) else None
    reads_kafka = any(isinstance(source.offset, KafkaOffset) for source in given.evidence.sources)
    fixed = patch and int(patch[1]) > _LAST_FAILING_PATCH
    if reads_kafka and given.restart.starting.spark == _V4_1 and not fixed:
        yield (
            "with Spark 4.1.0 to 4.1.2, expect the query to commit this batch and then fail once"
            " with a `NullPointerException`, a known error with Kafka: start it again"
        )


def _describe_range(given: RuleInput) -> str:
    open_ended = [source.kind for source in given.evidence.sources if source.open_ended]
    if not open_ended:
        return "over the same range"
    return (
        f"from where it began to whatever {open_ended[0]} contains then, because its end is not"
        " logged"
    )


def _make_skipped_finding(given: RuleInput, skipped: Sequence[BatchId], planned: int) -> Finding:
    first, last = skipped[0], skipped[-1]
    single = first == last
    which = f"batch {first}" if single else f"batches {first} to {last}"
    in_full = which if single else f"all of {which}"
    they_are, them = ("it is", "it") if single else ("they are", "them")
    written = [ledger.batch for ledger in given.evidence.ledgers]
    in_sinks = bool(written) and all(isinstance(batch, int) and batch >= last for batch in written)
    return Finding(
        code=Code.BATCHES_SKIPPED,
        severity=Severity.NOTE if in_sinks else Severity.LOSES,
        text=f"A restart will run only batch {planned} again, and treat {which} as done, although"
        f" {they_are} planned but not committed.{f' Every sink has {them}.' if in_sinks else ''}",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(
            f"check whether the sink has {in_full}; if so, nothing is lost",
            *_advise_from_first(given, first, planned),
        ),
    )


def _advise_from_first(given: RuleInput, first: BatchId, planned: int) -> Iterator[str]:
    """Yield how to take the query back to a batch, if a restart can run that batch.

    It needs the entry before the batch, which Spark may have purged, and the state that the batch
    loads.
    """
    has_entry = first == 0 or spans_contain(given.evidence.batches.offset_spans, first - 1)
    loads = state_load.list_loads(given.evidence, first, given.restart.starting.spark)
    if not has_entry or any(load.missing for load in loads):
        missing = "the state of that time" if has_entry else f"`offsets/{first - 1}`"
        yield f"if not, no restart can run batch {first} again, because {missing} is missing"
        return
    yield (
        f"if not, {advice.take_sinks_back(first - 1)}; then move"
        f" {continuous.name_entries(first + 1, planned)} out of the checkpoint: a restart then runs"
        f" batch {first} again, and everything after it as new"
    )
