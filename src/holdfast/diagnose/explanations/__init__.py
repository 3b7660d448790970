"""What every code means; `holdfast explain` and the reference page are made from this.

logs.py           the offset log, the commit log, and `metadata`
sources.py        sources and their logs
state.py          state and settings
surroundings.py   sinks, drivers, storage, copies, growth
changes.py        changes of sources, sink and settings between two starts
changed_state.py  changes of what a query keeps in its state
"""

from collections.abc import Mapping

from holdfast.diagnose.explanations import (
    changed_state,
    changes,
    logs,
    sources,
    state,
    surroundings,
)
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code

EXPLANATIONS: Mapping[Code, Explanation] = {
    **logs.EXPLANATIONS,
    **sources.EXPLANATIONS,
    **state.EXPLANATIONS,
    **surroundings.EXPLANATIONS,
    **changes.EXPLANATIONS,
    **changed_state.EXPLANATIONS,
}
