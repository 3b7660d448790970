"""Stage 3: do the two logs agree on what is done?"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId, spans_contain
from holdfast.predict import start_errors

_RESTORE_LOGS = "restore the folders `offsets` and `commits` from a copy of the checkpoint"
_ANEW = f"if a new beginning is meant, {advice.NEW_CHECKPOINT}"


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Commits above the offset log, offsets that are gone, sources that changed in number.

    A log that cannot be listed agrees with nothing, and disagrees with nothing.
    """
    batches = seen.evidence.batches
    if batches.unlisted:
        return
    planned, committed = batches.last_planned, batches.last_committed
    if seen.restart.starting.continuous:
        yield from _find_in_epochs(seen.evidence)
        return
    if planned is None:
        yield from _find_without_offsets(seen)
    elif committed is not None and committed > planned:
        yield _make_ahead_finding(seen, planned, committed)
    if planned is not None:
        yield from _compare_sources(seen.evidence, planned)


def _find_in_epochs(evidence: Evidence) -> Iterator[Finding]:
    """Continuous mode goes on from where the last committed epoch ended."""
    committed, spans = evidence.batches.last_committed, evidence.batches.offset_spans
    if committed is None or spans_contain(spans, committed):
        return
    yield Finding(
        code=Code.OFFSETS_GONE,
        severity=Severity.BLOCKS,
        text=f"Epoch {committed} of continuous mode is committed, and `offsets/{committed}`, which"
        " says where it ended, is missing.",
        clues=(
            Clue(
                file=f"offsets/{committed}", expected="the end of the epoch", found="no such file"
            ),
        ),
        remedies=(f"restore `offsets/{committed}` from a copy of the checkpoint",),
    )


def _compare_sources(evidence: Evidence, planned: BatchId) -> Iterator[Finding]:
    """The last two entries must name as many sources, unless they go by name (version 2)."""
    end = evidence.offset_entries.get(planned)
    before = evidence.offset_entries.get(BatchId(planned - 1))
    if end is None or before is None or {before.version, end.version} != {1}:
        return
    if len(before.sources) == len(end.sources):
        return
    yield Finding(
        code=Code.SOURCES_CHANGED,
        severity=Severity.BLOCKS,
        text="The last two offset entries name different numbers of sources.",
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected=f"as many as in `offsets/{planned - 1}`, which are {len(before.sources)}",
                found=f"{len(end.sources)}",
            ),
        ),
        remedies=("start it with the query that wrote the checkpoint",),
    )


def _find_without_offsets(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    evidence = seen.evidence
    committed = evidence.batches.last_committed
    if committed is not None:
        yield Finding(
            code=Code.OFFSETS_GONE,
            severity=Severity.BLOCKS,
            text=f"Batches up to {committed} are committed and no offset entry is left.",
            clues=(Clue(file="offsets", expected=f"`offsets/{committed}`", found="no entry"),),
            remedies=("restore the folder `offsets` from a copy of the checkpoint",),
        )
    elif evidence.nonempty_folders:
        folders = ", ".join(f"`{one}`" for one in sorted(evidence.nonempty_folders))
        yield Finding(
            code=Code.LOCATION_NOT_EMPTY,
            severity=Severity.BLOCKS if seen.restart.error is not None else Severity.UNDEFINED,
            text=f"No batch is planned, and {folders} holds something.",
            clues=(Clue(file=folders, expected="an empty folder", found="files or folders"),),
            remedies=_advise_new_query(evidence, folders),
        )
    if committed is None and evidence.source_logs:
        yield _make_logs_gone_finding(seen, min(evidence.source_logs))
    elif committed is None and not evidence.nonempty_folders:
        yield NotAssessed(
            question="whether the query has run before",
            reason="there is no batch; one whose logs and sources were deleted looks the same,"
            " reads everything again, and its sink gets it twice or, by the query's id, skips it",
        )


def _advise_new_query(evidence: Evidence, folders: str) -> tuple[str, ...]:
    """State that was written tells of batches: without their logs it is not to be started over."""
    if any(one.latest_version for one in evidence.operators):
        return (_RESTORE_LOGS, _ANEW)
    return (f"move {folders} away, if nothing in it is needed",)


def _make_logs_gone_finding(seen: RuleInput, source: str) -> Finding:
    return Finding(
        code=Code.LOGS_GONE,
        severity=Severity.UNDEFINED,
        text=f"No batch is planned, and `sources/{source}` has what a source kept when one was: if"
        " the logs were deleted, a start reads everything again, from where the query first began.",
        clues=(
            Clue(file="offsets", expected="the entries of the batches so far", found="no entry"),
        ),
        remedies=(
            _RESTORE_LOGS,
            _ANEW,
            *(
                []
                if seen.restart.error
                else ["start it as it is, if it has never written anything"]
            ),
        ),
    )


def _make_ahead_finding(seen: RuleInput, planned: int, committed: int) -> Finding:
    spans = seen.evidence.batches.commit_spans
    met = min(max(span.first, planned) for span in spans if span.last >= planned)
    after = (
        "writes it to the sink, and goes on"
        if seen.restart.starting.spark < start_errors.COMMITS_NOTICED
        else "writes it to the sink, and then fails, at every start"
        if met == planned
        else f"goes on, and at batch {met} fails after that was written to the sink, at every start"
    )
    return Finding(
        code=Code.COMMIT_AHEAD,
        severity=Severity.DUPLICATES,
        text=f"Batch {committed} is committed and the offset log ends at {planned}: a start runs"
        f" batch {planned} again, {after}.",
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
                f"or, if it cannot be had, {advice.take_sinks_back(planned)}; then remove"
                f" {_name_commits(planned + 1, committed)}: batch {planned} then counts as the"
                f" last one"
                " done, and what came after it is read again"
            ),
            f"or, without such a copy, {advice.NEW_CHECKPOINT}",
        ),
    )


def _name_commits(first: int, last: int) -> str:
    if first == last:
        return f"`commits/{first}` with its hidden `.crc`"
    return f"`commits/{first}` to `commits/{last}` with their hidden `.crc` files"
