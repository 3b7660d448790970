"""The meaning of every code, for `holdfast explain` and the reference page of findings.

logs.py           batches and gaps in the offset log and the commit log
damaged_files.py  log entries and `metadata` that Spark cannot use
sources.py        the logs of file sources, and the data that sources still have
state.py          the files of the state
settings.py       settings that a checkpoint pins, or fails to
surroundings.py   sinks, drivers, storage, copies, growth
changes.py        changes to sources, sink, settings or Spark version between two starts
changed_state.py  changes to what a query keeps in its state
"""

from collections.abc import Mapping

from holdfast.diagnose.explanations import (
    changed_state,
    changes,
    damaged_files,
    logs,
    settings,
    sources,
    state,
    surroundings,
)
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code

EXPLANATIONS: Mapping[Code, Explanation] = {
    **logs.EXPLANATIONS,
    **damaged_files.EXPLANATIONS,
    **sources.EXPLANATIONS,
    **state.EXPLANATIONS,
    **settings.EXPLANATIONS,
    **surroundings.EXPLANATIONS,
    **changes.EXPLANATIONS,
    **changed_state.EXPLANATIONS,
}
