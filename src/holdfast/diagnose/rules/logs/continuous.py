"""Did continuous mode write the checkpoint, and what does a start with a different trigger do?

A start in continuous mode begins at the latest commit. A start with any other trigger begins at the
latest offset entry, as with every checkpoint.
"""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import continuous, restart, start_errors

_SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield what a start with a different trigger does, if continuous mode wrote the checkpoint."""
    if not given.restart.starting.continuous:
        return
    yield Finding(
        code=Code.CONTINUOUS_MODE,
        severity=Severity.NOTE,
        text="A start with a different trigger begins at the latest offset entry and"
        f" {_describe_other_trigger(given)}. Continuous mode wrote this offset log, and the"
        " prediction is for a start in continuous mode.",
        clues=(
            Clue(
                file=f"offsets/{given.evidence.batches.last_planned}",
                expected="the settings and the time of a micro-batch",
                found="an empty second line",
            ),
        ),
        remedies=("keep the trigger", _advise_before_change(given)),
    )
    yield NotAssessed(
        question="what a start in continuous mode does with damaged files",
        reason="this was tested with micro-batches only; for continuous mode the prediction follows"
        " Spark's source code",
    )


def _advise_before_change(given: RuleInput) -> str:
    """Return how to change the trigger if the source writes the same offsets in both modes.

    Kafka does.
    """
    pending, committed = given.evidence.batches.pending, given.evidence.batches.last_committed
    steps = []
    if pending:
        entries = continuous.name_entries(pending[0], pending[-1])
        steps.append(f"move {entries} out of the checkpoint")
    if committed is not None and given.restart.starting.spark >= start_errors.NEEDS_SETTINGS_SINCE:
        steps.append(
            f"give `offsets/{committed}` the second line `{_SETTINGS}` and remove its hidden `.crc`"
        )
    if not steps:
        return "change the trigger now, while every epoch is committed, if the source is Kafka"
    effect = ": Spark then reads again what came after the last commit" if pending else ""
    return f"if the source is Kafka, {' and '.join(steps)} before you change the trigger{effect}"


def _describe_other_trigger(given: RuleInput) -> str:
    """Return what a start with a different trigger does, as the end of a sentence."""
    start = replace(given.restart.starting, continuous=False)
    other = restart.predict(given.evidence, start)
    if other.error is not None:
        return f"fails, because {other.error.reason}"
    if isinstance(other.batch, Unknown):
        return f"cannot be predicted: {other.batch.reason}"
    if not other.rerun:
        return f"continues with batch {other.batch}, where the last epoch ended"
    skipped = [epoch for epoch in given.evidence.batches.pending if epoch != other.batch]
    done = f", and treats epochs {skipped[0]} to {skipped[-1]} as done" if skipped else ""
    if len(skipped) == 1:
        done = f", and treats epoch {skipped[0]} as done"
    return f"runs batch {other.batch} again over its range{done}"
