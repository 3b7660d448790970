"""Stage 2: run records and the lease beside a checkpoint -> what is known of its runs.

<base>/<name>/                                    the checkpoint
<base>/.holdfast/<name>/runs/<started>-<run id>/  one folder a run, with numbered segments
<base>/.holdfast/<name>/lease/<epoch>.json        who runs it
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.model.fact import Unreadable, UnreadableFile
from holdfast.model.ids import RunId
from holdfast.model.lease import Lease
from holdfast.storage import Children, Missing, Piece, Reader, Refused

if TYPE_CHECKING:
    from holdfast.model.events import QueryEvent

MOST_RUNS = 50
"""As many as are kept of a job: more are there only where the older could not be removed."""
_MOST_BYTES = 1 << 20
_STAMP = 14
"""The length of a run's start in milliseconds, with the `-` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The events of the newest runs, each with the file that tells it, oldest first."""

    events: "tuple[tuple[str, QueryEvent], ...]"
    lease: Lease | None
    unreadable: tuple[UnreadableFile, ...]


NOTHING = RunRecords(events=(), lease=None, unreadable=())


def read(beside: Reader, name: str) -> RunRecords:
    """What the records say of the checkpoint with this name."""
    top = beside.children(f".holdfast/{name}")
    if isinstance(top, Refused):
        return RunRecords(events=(), lease=None, unreadable=(make_unreadable(top.path, top),))
    if isinstance(top, Missing):
        return NOTHING
    from holdfast.decode import run_record  # most checkpoints have no records

    events: list[tuple[str, QueryEvent]] = []
    unreadable: list[UnreadableFile] = []
    for piece, data in beside.read(_list_segments(beside, f".holdfast/{name}/runs", unreadable)):
        run = RunId(piece.path.split("/")[-2][_STAMP:])
        said = decode_file(data, partial(run_record.decode, run_id=run))
        if isinstance(said, Missing):
            continue  # an old run, pruned while it was read
        for event in (said,) if isinstance(said, Unreadable) else said:
            if isinstance(event, Unreadable):
                unreadable.append(make_unreadable(piece.path, event))
            else:
                events.append((piece.path, event))
    return RunRecords(
        events=tuple(events),
        lease=_read_lease(beside, f".holdfast/{name}/lease"),
        unreadable=tuple(unreadable),
    )


def _list_segments(beside: Reader, runs: str, unreadable: list[UnreadableFile]) -> list[Piece]:
    """Of each of the newest runs the first segment, which tells the start, and the last two."""
    names: dict[str, list[str]] = {}
    for found in beside.walk([runs]):
        if isinstance(found, Refused):
            unreadable.append(make_unreadable(found.path, found))
        elif found.folder != runs:
            names.setdefault(found.folder, []).extend(file.name for file in found.files)
    if len(names) > MOST_RUNS:
        reason = f"has {len(names):,} runs, of which the newest {MOST_RUNS} were read"
        unreadable.append(UnreadableFile(path=runs, reason=reason, outside=True))
    pieces: list[Piece] = []
    for run in sorted(names)[-MOST_RUNS:]:
        told = sorted(names[run])
        kept = dict.fromkeys(told[:1] + told[1:][-2:])
        pieces += [Piece(path=f"{run}/{name}", most=_MOST_BYTES) for name in kept]
    return pieces


def _read_lease(beside: Reader, folder: str) -> Lease | None:
    inside = beside.children(folder)
    if not isinstance(inside, Children) or not inside.files:
        return None
    from holdfast.decode import lease as lease_format

    newest = Piece(path=f"{folder}/{inside.files[-1].name}", most=_MOST_BYTES)
    for _, data in beside.read([newest]):
        said = decode_file(data, lease_format.decode)
        if isinstance(said, Lease):
            return said
    return None
