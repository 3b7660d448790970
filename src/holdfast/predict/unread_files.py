"""Files that a start reads and holdfast could not: Evidence -> UnreadableFile.

No such start is predicted. The query may run as a user who can read these files, and they may be
whole or damaged.
"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import UnreadableFile

_WHOLE_FOLDERS = frozenset({"sources", "state"})


def find(evidence: Evidence) -> tuple[UnreadableFile, ...]:
    """Return the files that were not read, and the folders that cannot be listed."""
    return tuple(dict.fromkeys(_find_all(evidence)))


def list_read_at_start(evidence: Evidence, *, continuous: bool) -> Iterator[str]:
    """Yield the entries of the two logs that every start reads.

    In continuous mode they include the entries that the commits of epochs read.
    """
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if continuous:
        yield from (f"offsets/{epoch}" for epoch in evidence.batches.pending)
        if committed is not None:
            yield from (f"offsets/{committed}", f"commits/{committed}")
        return
    if planned is not None:
        yield f"offsets/{planned}"
        yield f"offsets/{planned - 1}"
    if committed is not None:
        yield f"commits/{committed}"


def _find_all(evidence: Evidence) -> Iterator[UnreadableFile]:
    yield from evidence.batches.unlisted
    needed = {"metadata", *list_read_at_start(evidence, continuous=False)}
    if evidence.batches.continuous:
        needed.update(list_read_at_start(evidence, continuous=True))
    for file in evidence.unreadable:
        is_needed = file.path in needed or _belongs_to_query(file, evidence)
        if file.path in _WHOLE_FOLDERS or (file.is_unread and is_needed):
            yield file
    for log in evidence.source_logs.values():
        yield from (file for file in log.damaged if file.is_unread)
    for operator in evidence.operators:
        yield from operator.unlisted


def _belongs_to_query(file: UnreadableFile, evidence: Evidence) -> bool:
    """Return whether a source or an operator of the query owns the file."""
    folder, _, rest = file.path.partition("/")
    name = rest.partition("/")[0]
    names = {own for source in evidence.sources for own in (source.name, source.folder)}
    return (folder == "state" and name.isdecimal()) or (
        folder == "sources" and (name in names or not names)
    )
