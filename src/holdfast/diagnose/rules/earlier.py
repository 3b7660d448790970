"""Stage 3: is this a Spark that the prediction is held against?"""

from collections.abc import Iterator

from holdfast.model.finding import Finding, NotAssessed, Seen
from holdfast.model.spark_version import SparkVersion

_HELD_SINCE = SparkVersion(3, 5)


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """The Sparks before that were tried, too, and differ where files are damaged in odd ways."""
    spark = seen.restart.starting.spark
    if spark < _HELD_SINCE:
        yield NotAssessed(
            question=f"whether Spark {spark} starts on a damaged checkpoint as later ones do",
            reason=f"the prediction is held against Spark {_HELD_SINCE} and later",
        )
