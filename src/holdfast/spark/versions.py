"""The versions of Spark that holdfast knows: the first file to change for the next version.

Add the minor version to `KNOWN`, let it write `tests/checkpoints/<version>` (`make golden`), and
follow the tests that fail: settings that it pins go to `pinned.py`, formats to `formats.py`.
"""

import re
from collections.abc import Sequence

from holdfast.model.spark_version import SparkVersion

KNOWN = (
    *(SparkVersion(2, minor) for minor in (1, 2, 3, 4)),
    *(SparkVersion(3, minor) for minor in (0, 1, 2, 3, 4, 5)),
    *(SparkVersion(4, minor) for minor in (0, 1, 2, 3)),
)
"""Every version whose checkpoints can be read, oldest first."""

OLDEST, NEWEST = KNOWN[0], KNOWN[-1]

PREDICTED_SINCE = SparkVersion(3, 5)
"""From this version on, real Spark has confirmed the predictions for every crash state."""

PREDICTED = f"{PREDICTED_SINCE} to {NEWEST}"
"""The versions that a restart is predicted for, as text."""

_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def parse_version(text: str) -> SparkVersion | None:
    """Return the minor version of a release; None if the text names no version."""
    match = _NUMBERS.match(text)
    return SparkVersion(int(match[1]), int(match[2])) if match else None


def list_between(lowest: SparkVersion, highest: SparkVersion) -> tuple[SparkVersion, ...]:
    """Return the known minor versions in a range, both ends included."""
    return tuple(version for version in KNOWN if lowest <= version <= highest)


def format_versions(versions: Sequence[SparkVersion]) -> str:
    """Write versions in short: `4.2 or later`, `3.5 to 4.1`, `3.5 and 4.1`."""
    first, last = versions[0], versions[-1]
    if list_between(first, last) != tuple(versions):
        return f"{', '.join(map(str, versions[:-1]))} and {last}"
    if last == NEWEST:
        return f"{first} or later"
    return f"{first}" if first == last else f"{first} to {last}"
