"""Stage 2: a location that somebody names -> a checkpoint to look at, or why there is none."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import (
    LocationEmpty,
    LocationForbidden,
    LocationMissing,
    NotACheckpoint,
    StorageUnavailable,
)
from holdfast.gather.evidence import CheckpointPlace
from holdfast.gather.inventory.read import OTHER_USER
from holdfast.gather.locate import recognise
from holdfast.storage import (
    Children,
    Missing,
    Reader,
    Refused,
    Subfolder,
    open_reader,
    urls,
)

if TYPE_CHECKING:
    from holdfast.gather.locate.search import SearchResult

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(/?)")
# Spark refuses it: a file system of its own has no other machine.
_HOST = re.compile("file://([^/]+)", re.IGNORECASE)
_ONE_SLASH = frozenset({"file", "hdfs"})
_TWO_SLASHES = _ONE_SLASH | {"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "azure", "adl"}
_BLOBS = frozenset({"wasb", "wasbs"})
_KNOWN = "`file`, `s3`, `s3a`, `gs`, `abfss` or `hdfs`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint, and what lies directly in it."""

    place: CheckpointPlace
    top: Children


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOfCheckpoints:
    """A folder that is no checkpoint, the checkpoints below it, and what was not searched there."""

    url: str
    reader: Reader
    found: tuple[str, ...]
    refused: tuple[Refused, ...]


def find(location: str, storage: Mapping[str, str]) -> Checkpoint | FolderOfCheckpoints:
    """What is at a location; raises where there is nothing to look at."""
    _require_location(location)
    url = urls.to_canonical(location)
    reader = open_reader(url, storage)
    top = reader.children("")
    if isinstance(top, Missing):
        raise LocationMissing(
            f"expected a checkpoint at `{location}`, found nothing there",
            hint=_suggest_above(url, storage),
        )
    if isinstance(top, Refused):
        raise _make_refusal_error(location, url, storage, top)
    if recognise.is_checkpoint(reader, "", top, _get_last_names(url)):
        return Checkpoint(place=_make_place(url, reader, storage), top=top)
    if not (top.files or top.folders or top.refused):
        raise LocationEmpty(
            f"expected a checkpoint at `{location}`, found an empty folder",
            hint=_suggest_above(url, storage),
        )
    if owner := _find_owner(url, storage):
        part = url.removeprefix(owner).strip("/")
        raise NotACheckpoint(
            f"expected a checkpoint at `{location}`, found the folder `{part}` of a checkpoint,"
            " and not the checkpoint itself",
            hint=f"look at the checkpoint: {_format_inspect(owner)}",
        )
    return _search(location, url, reader, top)


def _search(location: str, url: str, reader: Reader, top: Children) -> FolderOfCheckpoints:
    """The checkpoints below a folder that is none."""
    from holdfast.gather.locate import search  # a checkpoint itself needs none

    table = recognise.is_table(top) or recognise.may_be_iceberg(top)
    most = search.MOST_OF_A_TABLE if table else search.MOST_FOLDERS
    below_it = search.find_checkpoints(reader, top, above=_get_last_names(url), most=most)
    if not below_it.checkpoints:
        raise _make_nothing_error(location, url, top, below_it)
    return FolderOfCheckpoints(
        url=url,
        reader=reader,
        found=below_it.checkpoints,
        refused=below_it.refused + below_it.unsearched,
    )


def _require_location(location: str) -> None:
    """A scheme with one slash is no path, whatever the operating system thinks of it."""
    if not location.strip():
        raise LocationMissing(
            "expected a location, found an empty text",
            hint="a variable of the shell may be unset; name a folder, as in `holdfast inspect .`",
        )
    scheme = _SCHEME.match(location)
    if scheme and scheme[1].lower() not in (_TWO_SLASHES if scheme[2] else _ONE_SLASH):
        raise _make_scheme_error(location, scheme[1], scheme.end())
    host = _HOST.match(location)
    if host:
        path = location[host.end() :] if host[1] == "localhost" else f"/{location[7:]}"
        raise LocationMissing(
            f"expected a path after `file://`, found the host `{host[1]}` in `{location}`",
            hint=f"a path there begins with a third slash: `holdfast inspect file://{path}`",
        )
    if scheme and scheme[1].lower() not in _ONE_SLASH and not location[scheme.end() :].strip("/"):
        raise LocationMissing(
            f"expected a bucket and a folder in it, found `{location}`",
            hint=f"name them, as in `holdfast inspect {scheme[1]}://bucket/folder`",
        )


def _make_scheme_error(location: str, scheme: str, end: int) -> StorageUnavailable:
    """A URL that nothing here can read, or that is one slash short of one."""
    if scheme.lower() in _TWO_SLASHES:
        whole = f"{scheme}://{location[end:]}"
        return StorageUnavailable(
            f"expected two slashes after `{scheme}:`, found one in `{location}`",
            hint=f"write both: {_format_inspect(whole)}",
        )
    hint = f"copy the checkpoint to one of these, or mount it: `/{scheme}/…`"
    if scheme.lower() in _BLOBS:
        hint = "the same account has it, too, as `abfss://container@account.dfs.core.windows.net/…`"
    return StorageUnavailable(
        f"expected a path, or a URL with {_KNOWN}, found `{scheme}:` in `{location}`", hint=hint
    )


def find_checkpoint(location: str, storage: Mapping[str, str]) -> Checkpoint:
    """The checkpoint at a location; raises where there is none, or several."""
    found = find(location, storage)
    if isinstance(found, FolderOfCheckpoints):
        raise NotACheckpoint(
            f"expected a checkpoint at `{location}`, found a folder of {len(found.found)}",
            hint=f"name one of them, as in `{shlex.quote(f'{found.url}/{found.found[0]}')}`",
        )
    return found


def make_place_below(
    folder: FolderOfCheckpoints, path: str, storage: Mapping[str, str]
) -> CheckpointPlace:
    """One checkpoint of a folder."""
    parent, _, name = path.rpartition("/")
    return CheckpointPlace(
        url=f"{folder.url}/{path}",
        name=name,
        reader=Subfolder(folder.reader, path),
        beside=Subfolder(folder.reader, parent),
        storage=storage,
    )


def _make_place(url: str, reader: Reader, storage: Mapping[str, str]) -> CheckpointPlace:
    parent = _find_parent(url)
    return CheckpointPlace(
        url=url,
        name=url.rpartition("/")[2],
        reader=reader,
        beside=open_reader(parent, storage) if parent else None,
        storage=storage,
    )


def _find_parent(url: str) -> str:
    """The folder that a location lies in, or nothing for a root or a bucket."""
    parent = url.rpartition("/")[0]
    if urls.is_local(url):
        return parent or "/"
    return "" if parent.endswith((":/", "/")) else parent


def _suggest_above(url: str, storage: Mapping[str, str]) -> str:
    """Where to look when there is nothing at a location: the nearest folder that is there."""
    parent = _find_owner(url, storage) or _find_parent(url)
    while parent not in ("", "/"):
        inside = open_reader(parent, storage).children("")
        if isinstance(inside, Children) and (inside.files or inside.folders):
            break
        parent = _find_parent(parent)
    if not parent:
        return f"check the spelling of `{url}`: nothing is there, nor above it"
    return f"look at what is above it: {_format_inspect(parent)}"


def _find_owner(url: str, storage: Mapping[str, str]) -> str:
    """The checkpoint that a location is a part of, or nothing."""
    place = url
    while (parent := _find_parent(place)) not in ("", place):
        if place.rpartition("/")[2] in recognise.PARTS:
            reader = open_reader(parent, storage)
            inside = reader.children("")
            if isinstance(inside, Children) and recognise.is_checkpoint(
                reader, "", inside, _get_last_names(parent)
            ):
                return parent
        place = parent
    return ""


def _format_inspect(place: str) -> str:
    """A command that can be copied, whatever is in the path."""
    return f"`{shlex.join(['holdfast', 'inspect', place])}`"


def _get_last_names(url: str) -> str:
    """The last two names of a location."""
    return "/".join(url.split("/")[-2:])


def _make_refusal_error(
    location: str, url: str, storage: Mapping[str, str], refused: Refused
) -> LocationForbidden | NotACheckpoint | StorageUnavailable:
    if "directory" in refused.reason:
        folder = _find_owner(url, storage) or location.rstrip("/").rpartition("/")[0] or "."
        return NotACheckpoint(
            f"expected a checkpoint at `{location}`, found a file",
            hint=f"name the folder of the checkpoint, as in {_format_inspect(folder)}",
        )
    said = f"expected to list `{location}`, found: {refused.reason}"
    if refused.forbidden:
        return LocationForbidden(said, hint=OTHER_USER)
    return StorageUnavailable(said, hint=_suggest_above(url, storage))


def _make_nothing_error(
    location: str, url: str, top: Children, below_it: "SearchResult"
) -> LocationForbidden | NotACheckpoint:
    """Why a folder gives nothing to look at, though it was searched."""
    alike = recognise.describe_folder(_get_last_names(url), top) or (
        recognise.RDDS if below_it.has_rdds else ""
    )
    forbidden = [one for one in below_it.refused if one.forbidden]
    if forbidden:
        return LocationForbidden(
            f"expected a checkpoint at `{location}`, found {alike or 'none'}, and folders below it"
            f" that this user may not list: {_format_first(forbidden)} ({forbidden[0].reason})",
            hint=OTHER_USER,
        )
    hint = "name the `checkpointLocation` of the query, or a folder"
    left = below_it.unsearched or below_it.refused
    if not left:
        said = f"{alike or 'none, nor one below it'} ({_format_names(top)})"
        hint += " that checkpoints lie in"
    else:
        said = f"{alike or 'none'}, and not all of it was searched: {_format_first(left)}"
        said += f" ({left[0].reason})"
        hint += " nearer to it"
    if below_it.unsearched and left[0].path != ".":
        hint += f", as in {_format_inspect(f'{url}/{left[0].path}')}"
    return NotACheckpoint(f"expected a checkpoint at `{location}`, found {said}", hint=hint)


def _format_first(refused: Sequence[Refused]) -> str:
    more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
    return f"`{refused[0].path}`{more}"


def _format_names(top: Children) -> str:
    files = sorted((file.name for file in top.files), key=lambda name: name.startswith("."))
    names = [*(f"{name}/" for name in top.folders), *files]
    return ", ".join(f"`{name}`" for name in names[:5]) + (", …" if len(names) > 5 else "")  # noqa: PLR2004
