"""Stage 3: is somebody running this query?"""

import itertools
from collections.abc import Iterator

from holdfast.model.evidence import RestartSign, Start
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """A lease that is held, a lease of a driver that died, and runs that overlap."""
    yield from _find_lease(seen)
    yield from _find_overlaps(seen)


def _find_lease(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    lease, now = seen.evidence.lease, seen.evidence.observed_ms
    if lease is None:
        yield NotAssessed(
            question="whether a driver runs this query now",
            reason="only a lease of holdfast tells, and there is none beside the checkpoint",
        )
        return
    if lease.released:
        return
    age = max(0, now - lease.heartbeat_ms) // 1000
    who = f"process {lease.holder.pid} on `{lease.holder.host}`"
    held = seen.evidence.driver_runs
    yield Finding(
        code=Code.DRIVER_RUNNING if held else Code.LEASE_STALE,
        severity=Severity.UNDEFINED if held else Severity.NOTE,
        text=f"A driver runs this query: {who}. A second one would fight with it."
        if held
        else f"Nobody runs this query: {who} ended without releasing its lease."
        if seen.evidence.driver_died
        else f"The last driver, {who}, ended without giving up its lease.",
        clues=(
            Clue(
                file=f".holdfast/{lease.job}/lease",
                expected="a lease that was given up",
                found=f"epoch {lease.epoch}, last heard of {age:,} s ago",
            ),
        ),
        remedies=("stop that driver first",) if held else (),
    )


def _find_overlaps(seen: RuleInput) -> Iterator[Finding]:
    history = seen.evidence.restart_history
    if not isinstance(history, Known):
        return
    told = [one for one in history.value if one.sign is RestartSign.RECORDED]
    for earlier, later in itertools.pairwise(told):
        if _do_overlap(earlier, later):
            yield Finding(
                code=Code.TWO_DRIVERS,
                severity=Severity.UNDEFINED,
                text="Two runs of this query overlap: two drivers have worked on one checkpoint.",
                clues=(
                    Clue(
                        file=earlier.read_from,
                        expected=f"an end before run `{later.run_id}` starts",
                        found="a later end",
                    ),
                ),
                remedies=("look whether both are still alive, and stop one",),
            )


def _do_overlap(earlier: Start, later: Start) -> bool:
    if isinstance(earlier.ended_ms, Unknown) or isinstance(later.at_ms, Unknown):
        return False
    return earlier.ended_ms > later.at_ms
