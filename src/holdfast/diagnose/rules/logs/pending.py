"""Stage 3: is a batch planned and not committed?

Spark runs exactly the last planned batch again, over its logged range, and takes every batch before
it for done. Of Kinesis only the beginning is logged. In continuous mode Spark reads again whatever
came after the last commit.
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

_LOOK = "look whether the sink holds rows of batch {} before it is started"
_V4_1 = SparkVersion(4, 1)
_OF_4_1 = re.compile(r"4\.1\.(\d{1,3})\b.*")
_LAST = 2


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The batch that will run again, and those that will not."""
    restart, batches = seen.restart, seen.evidence.batches
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
        yield _make_repartition_finding(seen, planned)
        return
    yield _make_pending_finding(seen, planned)
    skipped = [one for one in batches.pending if one != planned and not batches.lacks_commits]
    if skipped and not restart.starting.asynchronous:
        held = [one.batch for one in seen.evidence.ledgers]
        whole = bool(held) and all(isinstance(one, int) and one >= skipped[-1] for one in held)
        if empty_batch.all_write_nothing(seen.evidence, skipped):
            yield _make_empty_skipped_finding(skipped, planned)
        else:
            yield _make_skipped_finding(seen, skipped, planned, held=whole)


def _find_epochs(batches: Batches) -> Iterator[Finding]:
    if not batches.pending:
        return
    first, last, committed = batches.pending[0], batches.pending[-1], batches.last_committed
    which = f"Epoch {first} is" if first == last else f"Epochs {first} to {last} are"
    start = (
        f"begins again at the end of epoch {committed}"
        if committed is not None
        else "begins anew, at epoch 0, where the source begins"
    )
    yield Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.UNDEFINED,
        text=f"{which} logged and not committed: a start in continuous mode {start}, reads on as"
        " far as there is data, and what was written since is written again.",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the epoch", found="no such file"),
        ),
        remedies=(
            "look what the sink holds of it before it is started",
            (
                f"put away {continuous.name_entries(first, last)} first: Spark keeps what is"
                f" there, and"
                " commits an epoch with the end that is logged, whether it was read again or not;"
                " after a second crash the rest is passed over"
            ),
        ),
    )


def _make_repartition_finding(seen: RuleInput, planned: int) -> Finding:
    """Another number of partitions than the batch before: the state was being repartitioned."""
    was, now = (
        seen.evidence.offset_entries[BatchId(batch)].settings[pinned.SHUFFLE_PARTITIONS]
        for batch in (planned - 1, planned)
    )
    return Finding(
        code=Code.REPARTITION_UNFINISHED,
        severity=Severity.BLOCKS,
        text=f"Batch {planned} brings the state from {was} to {now} partitions, and did not end:"
        " Spark refuses to start.",
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected=f"`{pinned.SHUFFLE_PARTITIONS}` is {was}",
                found=f"it is {now}",
            ),
        ),
        remedies=("repartition the state once more, with the same number, and let it end",),
    )


def _make_pending_finding(seen: RuleInput, planned: int) -> Finding:
    acts = {one.act for one in seen.restart.sinks}
    exact = bool(acts) and acts <= {SinkAction.WRITE, SinkAction.SKIP, SinkAction.NOTHING}
    if empty_batch.writes_nothing(seen.evidence):
        return _make_empty_pending_finding(seen, planned)
    end = (
        "every sink keeps a ledger, so that it is written once"
        if exact
        else "a sink that cannot tell it from a new one may hold it twice"
    )
    spark = seen.restart.starting.spark
    if sockets.find_course(seen.evidence, spark) is sockets.Course.LOSES_AND_FAILS:
        end = "its rows are lost unless the sink has them, because a socket sends nothing twice"
    why = (
        f"Whether batch {planned} has ended is not known, as Spark 2.1 keeps no commit log"
        if seen.evidence.batches.no_commit_log
        else f"Batch {planned} is planned and not committed"
    )
    return Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.NOTE if exact else Severity.UNDEFINED,
        text=f"{why}: a start runs it again {_describe_range(seen)}; {end}.",
        clues=(
            Clue(file=f"commits/{planned}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(*([] if exact else [_LOOK.format(planned)]), *_advise_second_start(seen)),
    )


def _make_empty_pending_finding(seen: RuleInput, planned: int) -> Finding:
    return Finding(
        code=Code.PENDING_BATCH,
        severity=Severity.NOTE,
        text=f"Batch {planned} is planned and not committed, and has no rows to read: a start runs"
        " it again and writes nothing.",
        clues=(
            Clue(file=f"commits/{planned}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=tuple(_advise_second_start(seen)),
    )


def _make_empty_skipped_finding(skipped: Sequence[BatchId], planned: int) -> Finding:
    first, last = skipped[0], skipped[-1]
    which = f"batch {first}" if first == last else f"batches {first} to {last}"
    return Finding(
        code=Code.BATCHES_SKIPPED,
        severity=Severity.NOTE,
        text=f"A start runs only batch {planned} again and takes {which} for done: nothing is lost,"
        f" because {which} had no rows to read.",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(),
    )


def _advise_second_start(seen: RuleInput) -> Iterator[str]:
    """What Spark 4.1 was seen to do with Kafka: it reports on the batch what it has not asked for.

    The patch version is known only where something tells of the runs.
    """
    told = seen.evidence.spark_version
    patch = _OF_4_1.fullmatch(told.value) if isinstance(told, Known) else None
    kafka = any(isinstance(one.offset, KafkaOffset) for one in seen.evidence.sources)
    if kafka and seen.restart.starting.spark == _V4_1 and not (patch and int(patch[1]) > _LAST):
        yield (
            "of Spark 4.1.0 to 4.1.2 expect that it commits this batch and then ends with a"
            " `NullPointerException`, as it does once with Kafka: start it once more"
        )


def _describe_range(seen: RuleInput) -> str:
    opened = [one.kind for one in seen.evidence.sources if one.open_ended]
    if not opened:
        return "over exactly its range"
    return f"from where it began, to what {opened[0]} holds then, since no end of it is logged"


def _make_skipped_finding(
    seen: RuleInput, skipped: Sequence[BatchId], planned: int, *, held: bool
) -> Finding:
    first, last = skipped[0], skipped[-1]
    one = first == last
    which, them = (f"Batch {first} is", "it") if one else (f"Batches {first} to {last} are", "them")
    ran = f"batch {first}" if one else f"all of batches {first} to {last}"
    return Finding(
        code=Code.BATCHES_SKIPPED,
        severity=Severity.NOTE if held else Severity.LOSES,
        text=f"{which} planned and not committed, and a start takes {them} for done: only batch"
        f" {planned} runs again{f'; every sink holds {them}' if held else ''}.",
        clues=(
            Clue(file=f"commits/{first}", expected="a commit of the batch", found="no such file"),
        ),
        remedies=(
            f"look whether the sink holds {ran}; if so, nothing is lost",
            *_advise_from_first(seen, first, planned),
        ),
    )


def _advise_from_first(seen: RuleInput, first: BatchId, planned: int) -> Iterator[str]:
    """To take the query back to a batch, if a start finds what it then needs.

    That is the entry before it, which Spark may have purged, and the state that the batch loads.
    """
    before = first == 0 or spans_contain(seen.evidence.batches.offset_spans, first - 1)
    loaded = state_load.list_loads(seen.evidence, first, seen.restart.starting.spark)
    if not before or any(one.missing for one in loaded):
        lacks = "the state of that time" if before else f"`offsets/{first - 1}`"
        yield f"if not, no start can run batch {first} again, as {lacks} is not there"
        return
    yield (
        f"if not, {advice.take_sinks_back(first - 1)}; then put away"
        f" {continuous.name_entries(first + 1, planned)}: a start then runs batch {first} again,"
        f" and"
        " everything after it as new"
    )
