"""Which descriptions of stateful operators a start needs and cannot read.

transformWithState, and joins of format 3 and later, keep state schemas under names of their own,
and only the operator's metadata of version 2 contains these names. Spark reads the newest metadata
that is no later than the batch, and then every schema that it names, by absolute paths. The first
batch does not need them. The schema of any other operator lies in one place, and its metadata is
not needed.
"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.state import OperatorEvidence

_PROCESSORS = "transformWithState"


def find_unreadable_metadata(
    evidence: Evidence,
) -> Iterator[tuple[OperatorEvidence, UnreadableFile]]:
    """Yield the metadata that a batch after the first needs, and that is missing or unreadable."""
    for operator in evidence.operators:
        metadata = operator.metadata
        if not operator.evolving or isinstance(metadata, Known):
            continue
        if not isinstance(metadata, UnreadableFile):
            path = f"state/{operator.operator}/_metadata/v2"
            yield operator, UnreadableFile(path=path, reason=metadata.reason)
        elif not metadata.is_unread:
            yield operator, metadata


def find_unreadable_schemas(
    evidence: Evidence,
) -> Iterator[tuple[OperatorEvidence, UnreadableFile]]:
    """Yield the unreadable schemas in this checkpoint that an operator's metadata names."""
    unreadable = {file.path: file for file in evidence.unreadable if not file.is_unread}
    for operator in evidence.operators:
        for path in list_own_schemas(evidence, operator):
            if path in unreadable:
                yield operator, unreadable[path]


def find_lost_schemas(evidence: Evidence) -> Iterator[tuple[OperatorEvidence, str]]:
    """Yield the missing schemas that a start needs.

    A join writes its schema again; a processor needs the old one.
    """
    for operator in evidence.operators:
        if is_processor(operator):
            for path in list_own_schemas(evidence, operator):
                if path in operator.lost_schemas:
                    yield operator, path


def is_processor(operator: OperatorEvidence) -> bool:
    """Return whether it is a transformWithState of any kind."""
    return isinstance(operator.name, Known) and operator.name.value.startswith(_PROCESSORS)


def list_own_schemas(evidence: Evidence, operator: OperatorEvidence) -> tuple[str, ...]:
    """Return the schemas that its metadata names in this checkpoint, by their relative paths."""
    root = normalize_location(evidence.location.value)
    named = (
        normalize_location(path)
        for store in operator.declared_stores
        for path in store.schema_paths
    )
    return tuple(path.removeprefix(f"{root}/") for path in named if path.startswith(f"{root}/"))


def list_foreign_schemas(evidence: Evidence, operator: OperatorEvidence) -> tuple[str, ...]:
    """Return the schemas that its metadata names in other places."""
    root = normalize_location(evidence.location.value)
    named = (
        normalize_location(path)
        for store in operator.declared_stores
        for path in store.schema_paths
    )
    return tuple(dict.fromkeys(path for path in named if not path.startswith(f"{root}/")))


def normalize_location(url: str) -> str:
    """Return a location without its scheme, so that `file:/a` and `/a` are the same."""
    head, colon, rest = url.partition(":")
    if colon and head == "file":
        return "/" + rest.lstrip("/")
    return url.rstrip("/").replace("s3a://", "s3://")
