"""Do the two logs agree on which batches are done?"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId, spans_contain
from holdfast.predict import start_errors

_RESTORE_LOGS = "restore the folders `offsets` and `commits` from a copy of the checkpoint"
_START_OVER = f"if the query is meant to begin from nothing, {advice.NEW_CHECKPOINT}"


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield commits beyond the offset log, lost offsets, and a changed number of sources.

    A log that cannot be listed is compared with nothing.
    """
    batches = given.evidence.batches
    if batches.unlisted:
        return
    planned, committed = batches.last_planned, batches.last_committed
    if given.restart.starting.continuous:
        yield from _find_in_epochs(given.evidence)
        return
    if planned is None:
        yield from _find_without_offsets(given)
    elif committed is not None and committed > planned:
        yield _make_ahead_finding(given, planned, committed)
    if planned is not None:
        yield from _compare_sources(given.evidence, planned)


def _find_in_epochs(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if the end of the last committed epoch is lost.

    Continuous mode continues from there.
    """
    committed, spans = evidence.batches.last_committed, evidence.batches.offset_spans
    if committed is None or spans_contain(spans, committed):
        return
    yield Finding(
        code=Code.OFFSETS_GONE,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: epoch {committed} of continuous mode is committed, but"
        f" `offsets/{committed}`, which says where the epoch ended, is missing.",
        clues=(
            Clue(
                file=f"offsets/{committed}", expected="the end of the epoch", found="no such file"
            ),
        ),
        remedies=(f"restore `offsets/{committed}` from a copy of the checkpoint",),
    )


def _compare_sources(evidence: Evidence, planned: BatchId) -> Iterator[Finding]:
    """Yield a finding if the last two entries have different numbers of sources.

    Entries of version 2 identify sources by name, so their numbers may differ.
    """
    end = evidence.offset_entries.get(planned)
    before = evidence.offset_entries.get(BatchId(planned - 1))
    if end is None or before is None or {before.version, end.version} != {1}:
        return
    if len(before.sources) == len(end.sources):
        return
    yield Finding(
        code=Code.SOURCES_CHANGED,
        severity=Severity.BLOCKS,
        text="A restart will fail: the last two offset entries have different numbers of sources.",
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected=f"{len(before.sources)}, as in `offsets/{planned - 1}`",
                found=f"{len(end.sources)}",
            ),
        ),
        remedies=("start the query that wrote the checkpoint",),
    )


def _find_without_offsets(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    evidence = given.evidence
    committed = evidence.batches.last_committed
    if committed is not None:
        yield Finding(
            code=Code.OFFSETS_GONE,
            severity=Severity.BLOCKS,
            text=f"A restart cannot continue from here: batches up to {committed} are committed,"
            " but no offset entry is left.",
            clues=(Clue(file="offsets", expected=f"`offsets/{committed}`", found="no entry"),),
            remedies=("restore the folder `offsets` from a copy of the checkpoint",),
        )
    elif evidence.nonempty_folders:
        yield _make_not_empty_finding(given)
    if committed is None and evidence.source_logs:
        yield _make_logs_gone_finding(given, min(evidence.source_logs))
    elif committed is None and not evidence.nonempty_folders:
        yield NotAssessed(
            question="whether the query has run before",
            reason="there is no batch; a query whose logs and sources were deleted looks the same."
            " Such a query reads everything again, and its sink gets the rows twice or, if it"
            " recognizes the query id, skips them",
        )


def _make_not_empty_finding(given: RuleInput) -> Finding:
    names = sorted(given.evidence.nonempty_folders)
    folders = ", ".join(f"`{name}`" for name in names)
    fails = given.restart.error is not None
    effect = "A restart will fail" if fails else "A restart will begin at batch 0"
    return Finding(
        code=Code.LOCATION_NOT_EMPTY,
        severity=Severity.BLOCKS if fails else Severity.UNDEFINED,
        text=f"{effect}: no batch is planned, but {folders} {'is' if len(names) == 1 else 'are'}"
        " not empty.",
        clues=(Clue(file=folders, expected="an empty folder", found="files or folders"),),
        remedies=_advise_new_query(given.evidence, folders),
    )


def _advise_new_query(evidence: Evidence, folders: str) -> tuple[str, ...]:
    """Return how to start without any batch.

    State that was written proves earlier batches: without their logs the query must not start over.
    """
    if any(operator.latest_version for operator in evidence.operators):
        return (_RESTORE_LOGS, _START_OVER)
    return (f"move {folders} away, if nothing in it is needed",)


def _make_logs_gone_finding(given: RuleInput, source: str) -> Finding:
    as_it_is = ["if the query has never written anything, start it as it is"]
    return Finding(
        code=Code.LOGS_GONE,
        severity=Severity.UNDEFINED,
        text="If the logs were deleted, a restart will read everything again, from where the query"
        f" first began: no batch is planned, but `sources/{source}` has files that a source writes"
        " when a batch is planned.",
        clues=(
            Clue(file="offsets", expected="the entries of the batches so far", found="no entry"),
        ),
        remedies=(_RESTORE_LOGS, _START_OVER, *([] if given.restart.error else as_it_is)),
    )


def _make_ahead_finding(given: RuleInput, planned: int, committed: int) -> Finding:
    spans = given.evidence.batches.commit_spans
    fails_at = min(max(span.first, planned) for span in spans if span.last >= planned)
    effect = (
        f"A restart will run batch {planned} again, write it to the sink, and continue"
        if given.restart.starting.spark < start_errors.CHECKS_COMMITS_SINCE
        else f"Every restart will run batch {planned} again, write it to the sink, and then fail"
        if fails_at == planned
        else f"A restart will run batch {planned} again, continue, and fail at batch {fails_at}"
        " after the sink has written that batch; later restarts fail there too"
    )
    return Finding(
        code=Code.COMMIT_AHEAD,
        severity=Severity.DUPLICATES,
        text=f"{effect}. Batch {committed} is committed, but the offset log ends at {planned}.",
        clues=(
            Clue(
                file=f"offsets/{committed}",
                expected=f"an offset entry for the committed batch {committed}",
                found=f"none after `offsets/{planned}`",
            ),
        ),
        remedies=(
            f"restore `offsets/{committed}` from a copy of the checkpoint",
            (
                f"if you have no copy of the checkpoint, {advice.take_sinks_back(planned)}; then"
                f" remove {_name_commits(planned + 1, committed)}: batch {planned} then counts as"
                " the last batch done, and Spark reads again what came after it"
            ),
            f"if you have no copy of the tables either, {advice.NEW_CHECKPOINT}",
        ),
    )


def _name_commits(first: int, last: int) -> str:
    if first == last:
        return f"`commits/{first}` with its hidden `.crc`"
    return f"`commits/{first}` to `commits/{last}` with their hidden `.crc` files"
