"""Were the predictions compared with this Spark?

They were compared with Apache Spark, from 3.5 on. A vendor's Spark may read and write differently.
"""

from collections.abc import Iterator

from holdfast.model.finding import Finding, NotAssessed, RuleInput
from holdfast.model.spark_version import Runtime
from holdfast.spark.versions import PREDICTED_SINCE


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield what is not certain for an older Spark or a vendor's Spark.

    Older versions were tried too, and differ if files are damaged in unusual ways.
    """
    spark = given.restart.starting.spark
    if spark < PREDICTED_SINCE:
        yield NotAssessed(
            question=f"whether Spark {spark} starts from a damaged checkpoint as later versions do",
            reason=f"the prediction was compared with Spark {PREDICTED_SINCE} and later",
        )
    written_by = given.evidence.spark_versions
    if isinstance(written_by, Runtime):
        yield NotAssessed(
            question=f"whether {written_by.name} starts from it as Apache Spark {spark} does",
            reason="the prediction was compared with Apache Spark only, and"
            f" {written_by.reasons[0]}",
        )
