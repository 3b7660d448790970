"""Run records and the lease beside a checkpoint -> the events of its runs.

<base>/<name>/                                    the checkpoint
<base>/.holdfast/<name>/runs/<started>-<run id>/  one folder per run, with numbered segments
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
"""As many as are kept per job; more exist only if old ones could not be removed."""
_MOST_BYTES = 1 << 20
_STAMP = 14
"""The length of a run's start in milliseconds, with the `-` after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """The events of the newest runs, each with its file, oldest first."""

    events: "tuple[tuple[str, QueryEvent], ...]"
    lease: Lease | None
    unreadable: tuple[UnreadableFile, ...]


NO_RECORDS = RunRecords(events=(), lease=None, unreadable=())


def read(parent: Reader, name: str) -> RunRecords:
    """Return the records of the checkpoint with this name; `parent` is the folder it is in."""
    top = parent.children(f".holdfast/{name}")
    if isinstance(top, Refused):
        return RunRecords(events=(), lease=None, unreadable=(make_unreadable(top.path, top),))
    if isinstance(top, Missing):
        return NO_RECORDS
    from holdfast.decode import run_record  # most checkpoints have no records

    events: list[tuple[str, QueryEvent]] = []
    unreadable: list[UnreadableFile] = []
    for piece, data in parent.read(_list_segments(parent, f".holdfast/{name}/runs", unreadable)):
        run = RunId(piece.path.split("/")[-2][_STAMP:])
        decoded = decode_file(data, partial(run_record.decode, run_id=run))
        if isinstance(decoded, Missing):
            continue  # an old run that was pruned meanwhile
        for event in (decoded,) if isinstance(decoded, Unreadable) else decoded:
            if isinstance(event, Unreadable):
                unreadable.append(make_unreadable(piece.path, event))
            else:
                events.append((piece.path, event))
    return RunRecords(
        events=tuple(events),
        lease=_read_lease(parent, f".holdfast/{name}/lease"),
        unreadable=tuple(unreadable),
    )


def _list_segments(parent: Reader, runs: str, unreadable: list[UnreadableFile]) -> list[Piece]:
    """Return the first segment, which has the start, and the last two of each new run."""
    names: dict[str, list[str]] = {}
    for result in parent.walk([runs]):
        if isinstance(result, Refused):
            unreadable.append(make_unreadable(result.path, result))
        elif result.folder != runs:
            names.setdefault(result.folder, []).extend(file.name for file in result.files)
    if len(names) > MOST_RUNS:
        reason = f"only the newest {MOST_RUNS} of its {len(names):,} runs were read"
        unreadable.append(UnreadableFile(path=runs, reason=reason, outside=True))
    pieces: list[Piece] = []
    for run in sorted(names)[-MOST_RUNS:]:
        segments = sorted(names[run])
        wanted = dict.fromkeys(segments[:1] + segments[1:][-2:])
        pieces += [Piece(path=f"{run}/{name}", most=_MOST_BYTES) for name in wanted]
    return pieces


def _read_lease(parent: Reader, folder: str) -> Lease | None:
    inside = parent.children(folder)
    if not isinstance(inside, Children) or not inside.files:
        return None
    from holdfast.decode import lease as lease_format

    newest = Piece(path=f"{folder}/{inside.files[-1].name}", most=_MOST_BYTES)
    for _, data in parent.read([newest]):
        decoded = decode_file(data, lease_format.decode)
        if isinstance(decoded, Lease):
            return decoded
    return None
