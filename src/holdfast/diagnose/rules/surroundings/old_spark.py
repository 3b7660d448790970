"""Stage 3: is this a Spark that the prediction is held against?

Apache's are, from 3.5 on. A vendor's own may read and write otherwise.
"""

from collections.abc import Iterator

from holdfast.model.finding import Finding, NotAssessed, RuleInput
from holdfast.model.spark_version import Runtime
from holdfast.spark.versions import PREDICTED_SINCE


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The Sparks before that were tried, too, and differ where files are damaged in odd ways."""
    spark = seen.restart.starting.spark
    if spark < PREDICTED_SINCE:
        yield NotAssessed(
            question=f"whether Spark {spark} starts on a damaged checkpoint as later ones do",
            reason=f"the prediction is held against Spark {PREDICTED_SINCE} and later",
        )
    wrote = seen.evidence.spark_versions
    if isinstance(wrote, Runtime):
        yield NotAssessed(
            question=f"whether {wrote.name} starts on it as Apache Spark {spark} does",
            reason=f"the prediction is held against Apache's Spark only, and {wrote.reasons[0]}",
        )
