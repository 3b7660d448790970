"""Are the sources read in the same way?

Rates and limits may change at any time. A starting position has no effect once there is a
checkpoint. Only the author of the query knows what an option of the file format means for the rows.
"""

from collections.abc import Iterator

from holdfast.diagnose import kafka_identity
from holdfast.diagnose.changes import difference
from holdfast.diagnose.kafka_identity import ClusterMatch
from holdfast.model.finding import Code, Finding, QueryChange, Severity
from holdfast.model.fingerprint import PlanSource

_RATES = (
    "maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger",
    "maxtriggerdelay", "minpartitions", "fetchoffset", "kafkaconsumer.", "kafka.max.poll",
    "kafka.fetch", "kafka.session", "kafka.request", "maxrecordspermicrobatch", "includeheaders",
    "groupidprefix", "kafka.group.id", "kafka.client.id", "maxcachedfiles", "kafka.receive",
    "kafka.max.partition", "cleansource", "sourcearchivedir",
)  # fmt: skip
_IGNORED = ("startingoffsets", "startingtimestamp", "startingversion", "startingoffsetsbytimestamp")
_SERVERS = "kafka.bootstrap.servers"


def evaluate(change: QueryChange) -> Iterator[Finding]:
    """Compare the options and columns of each source that has kept its kind and target."""
    if change.old is None or len(change.old.sources) != len(change.new.sources):
        return
    for index, (was, now) in enumerate(zip(change.old.sources, change.new.sources, strict=True)):
        if (was.kind, was.target) != (now.kind, now.target):
            continue
        for key in sorted({*was.options, *now.options}):
            if was.options.get(key) != now.options.get(key):
                yield from _compare_option(
                    change, index, key, kafka_identity.compare_clusters(was.identity, now.identity)
                )
        yield from _compare_columns(change, index, was, now)


def _compare_option(
    change: QueryChange, index: int, key: str, cluster: ClusterMatch
) -> Iterator[Finding]:
    severity, text = _explain_option(key.lower(), cluster)
    if key.lower() == _SERVERS and cluster is ClusterMatch.OTHER:
        return  # reported as KAFKA_CLUSTER_CHANGED
    old = change.old.sources[index] if change.old else change.new.sources[index]
    yield difference.make_finding(
        Code.SOURCE_OPTION_CHANGED,
        severity,
        f"Option `{key}` of source {index} changed: {text}",
        where=difference.name_record(change),
        was=old.options.get(key, ""),
        now=change.new.sources[index].options.get(key, ""),
        remedies=(difference.UNDO,) if severity is Severity.UNDEFINED else (),
    )


def _explain_option(key: str, cluster: ClusterMatch) -> tuple[Severity, str]:
    if key.startswith(_RATES):
        return Severity.NOTE, "rates and limits may change at any time."
    if key in _IGNORED:
        return Severity.NOTE, "it has no effect once there is a checkpoint."
    if key == "failondataloss":
        return Severity.NOTE, "it decides whether missing offsets stop the query."
    if key == _SERVERS and cluster is ClusterMatch.SAME:
        return Severity.NOTE, "the servers belong to the same cluster."
    if key == _SERVERS:
        return (
            Severity.UNDEFINED,
            (
                "if the new servers belong to a different cluster, the offsets point to other"
                " records, and Spark does not notice."
            ),
        )
    return Severity.UNDEFINED, "it may decide which rows are read, or what they contain."


def _compare_columns(
    change: QueryChange, index: int, was: PlanSource, now: PlanSource
) -> Iterator[Finding]:
    old, new = ([(column.name, column.type) for column in source.columns] for source in (was, now))
    if old == new:
        return
    removed = [f"{name} {type_}" for name, type_ in old if (name, type_) not in new]
    added = [f"{name} {type_}" for name, type_ in new if (name, type_) not in old]
    yield difference.make_finding(
        Code.SOURCE_SCHEMA_CHANGED,
        Severity.NOTE,
        f"The columns of source {index} changed. Changes that reach the state are reported"
        " separately.",
        where=difference.name_record(change),
        was=", ".join(removed),
        now=", ".join(added),
    )
