"""Stage 3: Evidence -> which descriptions of stateful operators a start reads, and cannot.

transformWithState, and joins of format 3 and later, keep state schemas under names of their own,
and only the operator's metadata of version 2 says which. Spark reads the newest metadata that is no
later than the batch, and then every schema that it names, by absolute paths. In the first batch it
does without. Any other operator's schema lies in one place, and its metadata is not needed.
"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.state import OperatorSeen

_PROCESSORS = "transformWithState"


def metadata(evidence: Evidence) -> Iterator[tuple[OperatorSeen, UnreadableFile]]:
    """The metadata that a batch after the first needs, and cannot read or does not find."""
    for operator in evidence.operators:
        found = operator.metadata
        if not operator.evolving or isinstance(found, Known):
            continue
        if not isinstance(found, UnreadableFile):
            path = f"state/{operator.operator}/_metadata/v2"
            yield operator, UnreadableFile(path=path, reason=found.reason)
        elif not found.unseen:
            yield operator, found


def schemas(evidence: Evidence) -> Iterator[tuple[OperatorSeen, UnreadableFile]]:
    """The schemas in this checkpoint that an operator's metadata names, and that cannot be read."""
    unreadable = {one.path: one for one in evidence.unreadable if not one.unseen}
    for operator in evidence.operators:
        for path in here(evidence, operator):
            if path in unreadable:
                yield operator, unreadable[path]


def lost_schemas(evidence: Evidence) -> Iterator[tuple[OperatorSeen, str]]:
    """Those that are not there. A join writes its schema anew, a processor needs the old one."""
    for operator in evidence.operators:
        if processes(operator):
            for path in here(evidence, operator):
                if path in operator.lost_schemas:
                    yield operator, path


def processes(operator: OperatorSeen) -> bool:
    """Whether it is a transformWithState of any kind."""
    return isinstance(operator.name, Known) and operator.name.value.startswith(_PROCESSORS)


def here(evidence: Evidence, operator: OperatorSeen) -> tuple[str, ...]:
    """The schemas that its metadata names in this checkpoint, by their paths in it."""
    root = folder(evidence.location.value)
    named = (folder(path) for store in operator.declared for path in store.schema_paths)
    return tuple(path.removeprefix(f"{root}/") for path in named if path.startswith(f"{root}/"))


def elsewhere(evidence: Evidence, operator: OperatorSeen) -> tuple[str, ...]:
    """The schemas that its metadata names in other places."""
    root = folder(evidence.location.value)
    named = (folder(path) for store in operator.declared for path in store.schema_paths)
    return tuple(dict.fromkeys(path for path in named if not path.startswith(f"{root}/")))


def folder(url: str) -> str:
    """A location without its scheme, so that `file:/a` and `/a` are the same."""
    head, colon, rest = url.partition(":")
    if colon and head == "file":
        return "/" + rest.lstrip("/")
    return url.rstrip("/").replace("s3a://", "s3://")
