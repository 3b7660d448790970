"""A start that is predicted to fail -> one sentence: when it fails, and why."""

from holdfast.model.fact import Unknown
from holdfast.model.restart import Restart, RunForecast, Stage, StartError

STAGES = {
    Stage.START: "before anything is written",
    Stage.PLANNING: "after its offset entry is written, before the sink",
    Stage.WRITING: "while rows go to the sink",
    Stage.COMMITTING: "after the sink has written",
    Stage.AFTERWARDS: "some batches later, or not before it is stopped",
}


def describe(error: StartError) -> str:
    """When it fails, why, and what would make it succeed all the same."""
    unless = f", unless {error.unless}" if error.unless else ""
    return f"{STAGES[error.stage]}: {error.reason}{unless}"


def format_sentence(start: str, restart: Restart, error: StartError) -> str:
    """How a start fails; `start` is what it is called."""
    when = describe(error)
    if isinstance(error.batch, Unknown):
        return f"{start} fails {when}"
    waits = ", as soon as there is data," if restart.runs is RunForecast.IF_THERE_IS_DATA else ""
    return f"{start}{waits} fails at batch {error.batch}, {when}"
