"""Stage 3: is it the same Spark?"""

import re
from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model.batch import Unknown
from holdfast.model.finding import Change, Code, Finding, NotAssessed, Severity
from holdfast.model.spark_version import SparkVersion

_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def asked(change: Change) -> Iterator[Finding | NotAssessed]:
    """The version that wrote the checkpoint beside the one that is to start from it."""
    now = _version(change.new.spark_version)
    told = change.old.spark_version if change.old is not None else ""
    was, shown = _version(told), told
    versions = change.evidence.spark_versions
    if was is None and not isinstance(versions, Unknown):
        was = (
            versions.lowest
            if now and versions.lowest > now
            else min(versions.highest, now or versions.highest)
        )
        shown = str(was)
    if was is None or now is None:
        yield NotAssessed(
            question="whether the same version of Spark wrote the checkpoint",
            reason="nothing tells which one did",
        )
    elif now < was:
        yield difference.found(
            Code.SPARK_DOWNGRADED,
            Severity.UNDEFINED,
            "An older Spark is to read what a newer one wrote, which Spark does not promise.",
            where=difference.record(change) if told else "offsets",
            was=shown,
            now=change.new.spark_version,
            remedies=(f"start it with Spark {was} or later",),
        )
    elif now > was:
        yield difference.found(
            Code.SPARK_UPGRADED,
            Severity.NOTE,
            "A newer Spark reads what the old one wrote; after that there is no way back.",
            where=difference.record(change) if told else "offsets",
            was=shown,
            now=change.new.spark_version,
        )


def _version(text: str) -> SparkVersion | None:
    found = _NUMBERS.match(text)
    return SparkVersion(int(found[1]), int(found[2])) if found else None
