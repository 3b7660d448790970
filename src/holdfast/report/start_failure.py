"""A restart that is predicted to fail -> one sentence: when it fails, and why."""

from holdfast.model.fact import Unknown
from holdfast.model.restart import Restart, RunForecast, Stage, StartError

_STAGES = {
    Stage.START: "before it writes anything",
    Stage.PLANNING: "after it writes the offset entry, before it writes to the sink",
    Stage.WRITING: "while it writes to the sink",
    Stage.COMMITTING: "after it has written to the sink",
    Stage.AFTERWARDS: "some batches later, or only when it is stopped",
}


def describe(error: StartError) -> str:
    """Return when the restart fails, why, and the condition under which it succeeds after all."""
    unless = f", unless {error.unless}" if error.unless else ""
    return f"{_STAGES[error.stage]}: {error.reason}{unless}"


def format_sentence(subject: str, restart: Restart, error: StartError) -> str:
    """Return the sentence; `subject` names the restart, as in "a restart with Spark 4.1"."""
    when = describe(error)
    if isinstance(error.batch, Unknown):
        return f"{subject} fails {when}"
    waits = " as soon as there is data" if restart.runs is RunForecast.IF_THERE_IS_DATA else ""
    return f"{subject} fails at batch {error.batch}{waits}, {when}"
