"""Stage 3: Evidence -> what a start reads and this look could not: of such a start nothing is said.

The query may run as a user who may read it, and what is there may be whole or damaged.
"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import UnreadableFile

_WHOLE = frozenset({"sources", "state"})


def find(evidence: Evidence) -> tuple[UnreadableFile, ...]:
    """The files that this look did not read, and folders that cannot be listed."""
    return tuple(dict.fromkeys(_find_all(evidence)))


def list_read_at_start(evidence: Evidence, *, continuous: bool) -> Iterator[str]:
    """The entries of the two logs that every start reads; of epochs also what their commits do."""
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
    for one in evidence.unreadable:
        if one.path in _WHOLE or (
            one.is_unread and (one.path in needed or _is_part(one, evidence))
        ):
            yield one
    for log in evidence.source_logs.values():
        yield from (one for one in log.damaged if one.is_unread)
    for operator in evidence.operators:
        yield from operator.unlisted


def _is_part(one: UnreadableFile, evidence: Evidence) -> bool:
    """Whether it belongs to a source or an operator of the query, and is not just put there."""
    whole, _, rest = one.path.partition("/")
    name = rest.partition("/")[0]
    names = {one for source in evidence.sources for one in (source.name, source.folder)}
    return (whole == "state" and name.isdecimal()) or (
        whole == "sources" and (name in names or not names)
    )
