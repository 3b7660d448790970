"""What every code means; `holdfast explain` and the reference page are made from this.

logs.py           the two logs, and `metadata`
sources.py        the logs of sources, and the sources themselves
state.py          state and settings
surroundings.py   sinks, drivers, storage, copies, growth
changes.py        what changed between two starts, outside of the state
changed_state.py  what changed in the state
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
