"""Stage 3: Evidence -> which descriptions of stateful operators a start reads, and cannot.

transformWithState, and joins of format 3 and later, keep state schemas under names of their own,
and only the operator's metadata of version 2 says which. Spark reads the newest metadata that is no
later than the batch, and then every schema that it names, by absolute paths. In the first batch it
does without. Any other operator's schema lies in one place, and its metadata is not needed.
"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.state import OperatorEvidence

_PROCESSORS = "transformWithState"


def find_unreadable_metadata(
    evidence: Evidence,
) -> Iterator[tuple[OperatorEvidence, UnreadableFile]]:
    """The metadata that a batch after the first needs, and cannot read or does not find."""
    for operator in evidence.operators:
        found = operator.metadata
        if not operator.evolving or isinstance(found, Known):
            continue
        if not isinstance(found, UnreadableFile):
            path = f"state/{operator.operator}/_metadata/v2"
            yield operator, UnreadableFile(path=path, reason=found.reason)
        elif not found.is_unread:
            yield operator, found


def find_unreadable_schemas(
    evidence: Evidence,
) -> Iterator[tuple[OperatorEvidence, UnreadableFile]]:
    """The schemas in this checkpoint that an operator's metadata names, and that cannot be read."""
    unreadable = {one.path: one for one in evidence.unreadable if not one.is_unread}
    for operator in evidence.operators:
        for path in list_own_schemas(evidence, operator):
            if path in unreadable:
                yield operator, unreadable[path]


def find_lost_schemas(evidence: Evidence) -> Iterator[tuple[OperatorEvidence, str]]:
    """Those that are not there. A join writes its schema anew, a processor needs the old one."""
    for operator in evidence.operators:
        if is_processor(operator):
            for path in list_own_schemas(evidence, operator):
                if path in operator.lost_schemas:
                    yield operator, path


def is_processor(operator: OperatorEvidence) -> bool:
    """Whether it is a transformWithState of any kind."""
    return isinstance(operator.name, Known) and operator.name.value.startswith(_PROCESSORS)


def list_own_schemas(evidence: Evidence, operator: OperatorEvidence) -> tuple[str, ...]:
    """The schemas that its metadata names in this checkpoint, by their paths in it."""
    root = normalize_location(evidence.location.value)
    named = (
        normalize_location(path)
        for store in operator.declared_stores
        for path in store.schema_paths
    )
    return tuple(path.removeprefix(f"{root}/") for path in named if path.startswith(f"{root}/"))


def list_foreign_schemas(evidence: Evidence, operator: OperatorEvidence) -> tuple[str, ...]:
    """The schemas that its metadata names in other places."""
    root = normalize_location(evidence.location.value)
    named = (
        normalize_location(path)
        for store in operator.declared_stores
        for path in store.schema_paths
    )
    return tuple(dict.fromkeys(path for path in named if not path.startswith(f"{root}/")))


def normalize_location(url: str) -> str:
    """A location without its scheme, so that `file:/a` and `/a` are the same."""
    head, colon, rest = url.partition(":")
    if colon and head == "file":
        return "/" + rest.lstrip("/")
    return url.rstrip("/").replace("s3a://", "s3://")
