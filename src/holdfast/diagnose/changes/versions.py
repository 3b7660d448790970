"""Is it the same Spark?"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model import advice
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.spark_version import Runtime, SparkVersion, VersionRange
from holdfast.predict import state_load
from holdfast.spark.versions import parse_version

_V4_0 = SparkVersion(4, 0)
_JOIN_VALUES = "-keyWithIndexToValue"
_UNCHECKED = "spark.sql.streaming.stateStore.stateSchemaCheck=false"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the Spark that wrote the checkpoint with the Spark that will start from it."""
    now = parse_version(change.new.spark_version)
    recorded = change.old.spark_version if change.old is not None else ""
    was, shown = parse_version(recorded), recorded
    versions = change.evidence.spark_versions
    if was is None and isinstance(versions, VersionRange):
        was = (
            versions.lowest
            if now and versions.lowest > now
            else min(versions.highest, now or versions.highest)
        )
        shown = str(was)
    where = difference.name_record(change) if recorded else "offsets"
    if was is None or now is None:
        yield NotAssessed(
            question="whether the same version of Spark wrote the checkpoint",
            reason=f"{versions.name} wrote it: {versions.reasons[0]}"
            if isinstance(versions, Runtime)
            else "nothing shows which version did",
        )
    elif now < was:
        yield difference.make_finding(
            Code.SPARK_DOWNGRADED,
            Severity.UNDEFINED,
            "A newer Spark wrote the checkpoint, and Spark does not guarantee that an older version"
            " can read it.",
            where=where,
            was=shown,
            now=change.new.spark_version,
            remedies=(f"start the query with Spark {was} or later",),
        )
    elif now > was:
        yield difference.make_finding(
            Code.SPARK_UPGRADED,
            Severity.NOTE,
            "The newer Spark can read the checkpoint, but after this start the older version may no"
            " longer be able to.",
            where=where,
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
            question="whether the first query of the process requests state format 2",
            reason=f"Spark 4.0 can read `{refused[0]}` only if it does",
        )
    elif refused:
        yield difference.make_finding(
            Code.STATE_VERSION_UNKNOWN,
            Severity.BLOCKS,
            "The first batch will fail when it loads the state: Spark 4.0 wrote the metadata of"
            " RocksDB in version 2, which no other Spark reads.",
            where=refused[0],
            was="version 1",
            now="version 2",
            remedies=(f"start the query with Spark 4.0, or {advice.NEW_CHECKPOINT}",),
        )


def _find_join_risk(change: QueryChange) -> Iterator[Finding]:
    """Find columns that Spark 3.5 recorded as never null: Spark 4.0 may see them as nullable."""
    timed = {watermark.column for watermark in change.new.watermarks}
    for operator in change.evidence.operators:
        never_null = [
            column.name
            for store, families in operator.schema.items()
            if store.endswith(_JOIN_VALUES)
            for column in families[0].value
            if not column.nullable and column.name not in timed
        ]
        if never_null:
            yield difference.make_finding(
                Code.STATE_SCHEMA_CHANGED,
                Severity.UNDEFINED,
                f"Spark may refuse the state of join {operator.operator}: the state records columns"
                " as never null, which Spark 4.0 and later may treat as nullable.",
                where=f"state/{operator.operator}/0/left{_JOIN_VALUES}/_metadata/schema",
                was=", ".join(f"{name} not null" for name in dict.fromkeys(never_null)),
                now="not known before the start",
                remedies=(f"change nothing else, and start once with `--set {_UNCHECKED}`",),
            )
