"""Stage 3: was it written in continuous mode, and what does a start with another trigger do?

A start in continuous mode begins at the latest commit; one with any other trigger at the latest
offset entry, as it does with every checkpoint.
"""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import continuous, restart, start_errors

_SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The mode that it was written in, which no start has to keep."""
    if not seen.restart.starting.continuous:
        return
    yield Finding(
        code=Code.CONTINUOUS_MODE,
        severity=Severity.NOTE,
        text="Continuous mode wrote the offset log, and the prediction is of a start in that mode;"
        f" a start with another trigger begins at the latest offset entry: it"
        f" {_describe_other_trigger(seen)}.",
        clues=(
            Clue(
                file=f"offsets/{seen.evidence.batches.last_planned}",
                expected="the settings and the time of a micro-batch",
                found="an empty second line",
            ),
        ),
        remedies=("keep the trigger", _advise_before_change(seen)),
    )
    yield NotAssessed(
        question="what a start in continuous mode does with damaged files",
        reason="that was tried with micro-batches; here Spark's source tells what it reads first",
    )


def _advise_before_change(seen: RuleInput) -> str:
    """Only of a source that writes the same offsets in both modes, as Kafka does."""
    pending, committed = seen.evidence.batches.pending, seen.evidence.batches.last_committed
    steps = [f"put away {continuous.name_entries(pending[0], pending[-1])}"] if pending else []
    if committed is not None and seen.restart.starting.spark >= start_errors.NEEDS_SETTINGS:
        steps.append(
            f"give `offsets/{committed}` the second line `{_SETTINGS}` and remove its hidden `.crc`"
        )
    if not steps:
        return "or change it now, when every epoch is committed, if the source is Kafka"
    reads = ": what came after the last commit is then read again" if pending else ""
    return f"or, if the source is Kafka, {' and '.join(steps)} before it is changed{reads}"


def _describe_other_trigger(seen: RuleInput) -> str:
    """What a start with another trigger does."""
    how = replace(seen.restart.starting, continuous=False)
    other = restart.predict(seen.evidence, how)
    if other.error is not None:
        return f"fails, as {other.error.reason}"
    if isinstance(other.batch, Unknown):
        return f"cannot be told: {other.batch.reason}"
    if not other.rerun:
        return f"goes on with batch {other.batch}, where the last epoch ended"
    passed = [one for one in seen.evidence.batches.pending if one != other.batch]
    done = f", and takes epochs {passed[0]} to {passed[-1]} for done" if passed else ""
    if len(passed) == 1:
        done = f", and takes epoch {passed[0]} for done"
    return f"runs batch {other.batch} again over its range{done}"
