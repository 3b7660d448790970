"""Is a driver running this query?"""

import itertools
from collections.abc import Iterator

from holdfast.model.evidence import RestartSign, Start
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a lease that is held, a lease that a dead driver left, and runs that overlap."""
    yield from _find_lease(given)
    yield from _find_overlaps(given)


def _find_lease(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    lease, now_ms = given.evidence.lease, given.evidence.observed_ms
    if lease is None:
        yield NotAssessed(
            question="whether a driver is running this query now",
            reason="only a lease of holdfast shows this, and there is none beside the checkpoint",
        )
        return
    if lease.released:
        return
    age = max(0, now_ms - lease.heartbeat_ms) // 1000
    driver = f"process {lease.holder.pid} on `{lease.holder.host}`"
    running = given.evidence.driver_runs
    yield Finding(
        code=Code.DRIVER_RUNNING if running else Code.LEASE_STALE,
        severity=Severity.UNDEFINED if running else Severity.NOTE,
        text=f"A second driver would conflict with the driver of this query, {driver}."
        if running
        else f"No driver is running this query: {driver} ended without releasing its lease."
        if given.evidence.driver_died
        else f"The last driver, {driver}, ended without releasing its lease.",
        clues=(
            Clue(
                file=f".holdfast/{lease.job}/lease",
                expected="a released lease",
                found=f"epoch {lease.epoch}, last heartbeat {age:,} s ago",
            ),
        ),
        remedies=("stop that driver first",) if running else (),
    )


def _find_overlaps(given: RuleInput) -> Iterator[Finding]:
    history = given.evidence.restart_history
    if not isinstance(history, Known):
        return
    recorded = [start for start in history.value if start.sign is RestartSign.RECORDED]
    for earlier, later in itertools.pairwise(recorded):
        if _do_overlap(earlier, later):
            yield Finding(
                code=Code.TWO_DRIVERS,
                severity=Severity.UNDEFINED,
                text="Rows may be missing or written twice: two runs of this query overlap, so two"
                " drivers have worked on one checkpoint.",
                clues=(
                    Clue(
                        file=earlier.read_from,
                        expected=f"an end before run `{later.run_id}` starts",
                        found="a later end",
                    ),
                ),
                remedies=("check whether both are still running, and stop one",),
            )


def _do_overlap(earlier: Start, later: Start) -> bool:
    if isinstance(earlier.ended_ms, Unknown) or isinstance(later.at_ms, Unknown):
        return False
    return earlier.ended_ms > later.at_ms
