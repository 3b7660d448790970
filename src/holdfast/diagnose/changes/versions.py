"""Stage 3: is it the same Spark?"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.spark_version import Runtime, SparkVersion, VersionRange
from holdfast.predict import state_load
from holdfast.spark.versions import parse_version

_V4_0 = SparkVersion(4, 0)
_JOIN_VALUES = "-keyWithIndexToValue"
_UNCHECKED = "spark.sql.streaming.stateStore.stateSchemaCheck=false"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """The version that wrote the checkpoint beside the one that is to start from it."""
    now = parse_version(change.new.spark_version)
    told = change.old.spark_version if change.old is not None else ""
    was, shown = parse_version(told), told
    versions = change.evidence.spark_versions
    if was is None and isinstance(versions, VersionRange):
        was = (
            versions.lowest
            if now and versions.lowest > now
            else min(versions.highest, now or versions.highest)
        )
        shown = str(was)
    if was is None or now is None:
        yield NotAssessed(
            question="whether the same version of Spark wrote the checkpoint",
            reason=f"{versions.name} did: {versions.reasons[0]}"
            if isinstance(versions, Runtime)
            else "nothing tells which one did",
        )
    elif now < was:
        yield difference.make_finding(
            Code.SPARK_DOWNGRADED,
            Severity.UNDEFINED,
            "An older Spark is to read what a newer one wrote, which Spark does not promise.",
            where=difference.name_record(change) if told else "offsets",
            was=shown,
            now=change.new.spark_version,
            remedies=(f"start it with Spark {was} or later",),
        )
    elif now > was:
        yield difference.make_finding(
            Code.SPARK_UPGRADED,
            Severity.NOTE,
            "A newer Spark reads what the old one wrote; after that there is no way back.",
            where=difference.name_record(change) if told else "offsets",
            was=shown,
            now=change.new.spark_version,
        )

    if now is not None:
        yield from _find_state_version(change, now)
    if was is not None and now is not None and was < _V4_0 <= now:
        yield from _find_join_risk(change)


def _find_state_version(change: QueryChange, now: SparkVersion) -> Iterator[Finding | NotAssessed]:
    refused = state_load.list_stores_of_4_0(change.evidence)
    if refused and now == _V4_0:
        yield NotAssessed(
            question="whether the first query of the process asks for state format 2",
            reason=f"Spark 4.0 reads `{refused[0]}` only then",
        )
    elif refused:
        yield difference.make_finding(
            Code.STATE_VERSION_UNKNOWN,
            Severity.BLOCKS,
            "Spark 4.0 has written RocksDB's metadata in version 2, which no other Spark reads: the"
            " first batch fails when it loads the state.",
            where=refused[0],
            was="version 1",
            now="version 2",
            remedies=(f"start it with Spark 4.0, or {NEW_CHECKPOINT}",),
        )


def _find_join_risk(change: QueryChange) -> Iterator[Finding]:
    """Spark 3.5 knows of more columns that they are never null, and 4.0 compares that."""
    timed = {one.column for one in change.new.watermarks}
    for operator in change.evidence.operators:
        certain = [
            column.name
            for store, families in operator.schema.items()
            if store.endswith(_JOIN_VALUES)
            for column in families[0].value
            if not column.nullable and column.name not in timed
        ]
        if certain:
            yield difference.make_finding(
                Code.STATE_SCHEMA_CHANGED,
                Severity.UNDEFINED,
                f"The state of join {operator.operator} says that columns are never null, of which"
                " Spark 4.0 and later may say that they can be: then they refuse the state.",
                where=f"state/{operator.operator}/0/left{_JOIN_VALUES}/_metadata/schema",
                was=", ".join(f"{name} not null" for name in dict.fromkeys(certain)),
                now="not known before the start",
                remedies=(f"change nothing else, and start once with `--set {_UNCHECKED}`",),
            )
