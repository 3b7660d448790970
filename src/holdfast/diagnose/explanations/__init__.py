"""What every code means; `holdfast explain` and the reference page are made from this.

logs.py           the two logs, and `metadata`
sources.py        the logs of sources, and the sources themselves
state.py          state and settings
surroundings.py   sinks, drivers, storage, copies, growth
"""

from collections.abc import Mapping

from holdfast.diagnose.explanations import logs, sources, state, surroundings
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code

EXPLANATIONS: Mapping[Code, Explanation] = {
    **logs.EXPLANATIONS,
    **sources.EXPLANATIONS,
    **state.EXPLANATIONS,
    **surroundings.EXPLANATIONS,
}
