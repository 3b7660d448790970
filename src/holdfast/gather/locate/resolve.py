"""A location that the user names -> a checkpoint, a folder of checkpoints, or an error."""

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
from holdfast.report import words
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
# Spark refuses a host: the local file system has no other machine.
_HOST = re.compile("file://([^/]+)", re.IGNORECASE)
_ONE_SLASH = frozenset({"file", "hdfs"})
_TWO_SLASHES = _ONE_SLASH | {"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "azure", "adl"}
_BLOBS = frozenset({"wasb", "wasbs"})
_KNOWN = "`file`, `s3`, `s3a`, `gs`, `abfss` or `hdfs`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint, and what its folder directly contains."""

    place: CheckpointPlace
    top: Children


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOfCheckpoints:
    """A folder that is not a checkpoint, the checkpoints below it, and what was not searched."""

    url: str
    reader: Reader
    checkpoints: tuple[str, ...]
    refused: tuple[Refused, ...]


def find(location: str, storage: Mapping[str, str]) -> Checkpoint | FolderOfCheckpoints:
    """Return what is at a location; raise if there is no checkpoint."""
    _require_location(location)
    url = urls.to_canonical(location)
    reader = open_reader(url, storage)
    top = reader.children("")
    if isinstance(top, Missing):
        raise LocationMissing(
            f"`{location}` does not exist",
            hint=_suggest_above(url, storage),
        )
    if isinstance(top, Refused):
        raise _make_refusal_error(location, url, storage, top)
    if recognise.is_checkpoint(reader, "", top, _get_last_names(url)):
        return Checkpoint(place=_make_place(url, reader, storage), top=top)
    if not (top.files or top.folders or top.refused):
        raise LocationEmpty(
            f"`{location}` is an empty folder, not a checkpoint",
            hint=_suggest_above(url, storage),
        )
    if owner := _find_owner(url, storage):
        part = url.removeprefix(owner).strip("/")
        raise NotACheckpoint(
            f"`{location}` is the folder `{part}` of a checkpoint, not the checkpoint itself",
            hint=f"inspect the checkpoint: {_format_inspect(owner)}",
        )
    return _search(location, url, reader, top)


def _search(location: str, url: str, reader: Reader, top: Children) -> FolderOfCheckpoints:
    """Return the checkpoints below a folder that is not one."""
    from holdfast.gather.locate import search  # not needed for a checkpoint

    is_table = recognise.is_table(top) or recognise.may_be_iceberg(top)
    most = search.MOST_OF_A_TABLE if is_table else search.MOST_FOLDERS
    result = search.find_checkpoints(reader, top, above=_get_last_names(url), most=most)
    if not result.checkpoints:
        raise _make_nothing_error(location, url, top, result)
    return FolderOfCheckpoints(
        url=url,
        reader=reader,
        checkpoints=result.checkpoints,
        refused=result.refused + result.unsearched,
    )


def _require_location(location: str) -> None:
    """Raise if a location cannot be one; a scheme with one slash is a typing error, not a path."""
    if not location.strip():
        raise LocationMissing(
            "the location is empty",
            hint="check that the shell variable is set, or name a folder: `holdfast inspect .`",
        )
    scheme = _SCHEME.match(location)
    if scheme and scheme[1].lower() not in (_TWO_SLASHES if scheme[2] else _ONE_SLASH):
        raise _make_scheme_error(location, scheme[1], scheme.end())
    host = _HOST.match(location)
    if host:
        path = location[host.end() :] if host[1] == "localhost" else f"/{location[7:]}"
        raise LocationMissing(
            f"`{location}` names the host `{host[1]}`: `file://` takes a path only",
            hint=f"start the path with a third slash: `holdfast inspect file://{path}`",
        )
    if scheme and scheme[1].lower() not in _ONE_SLASH and not location[scheme.end() :].strip("/"):
        raise LocationMissing(
            f"`{location}` does not name a bucket and a folder",
            hint=f"name both, as in `holdfast inspect {scheme[1]}://bucket/folder`",
        )


def _make_scheme_error(location: str, scheme: str, end: int) -> StorageUnavailable:
    """Return the error for a URL that cannot be read, or that lacks a slash."""
    if scheme.lower() in _TWO_SLASHES:
        whole = f"{scheme}://{location[end:]}"
        return StorageUnavailable(
            f"`{location}` has only one slash after `{scheme}:`",
            hint=f"write two: {_format_inspect(whole)}",
        )
    hint = f"copy the checkpoint to such storage, or mount it and name a path like `/{scheme}/…`"
    if scheme.lower() in _BLOBS:
        hint = "name it as `abfss://container@account.dfs.core.windows.net/…`, on the same account"
    return StorageUnavailable(
        f"cannot read `{location}`: the scheme `{scheme}:` is not supported; a location is a path,"
        f" or a URL with {_KNOWN}",
        hint=hint,
    )


def find_checkpoint(location: str, storage: Mapping[str, str]) -> Checkpoint:
    """Return the checkpoint at a location; raise if there is none, or if there are several."""
    found = find(location, storage)
    if isinstance(found, FolderOfCheckpoints):
        count = words.pluralize(len(found.checkpoints), "checkpoint")
        first = shlex.quote(f"{found.url}/{found.checkpoints[0]}")
        raise NotACheckpoint(
            f"`{location}` is a folder with {count}, not a checkpoint",
            hint=f"name one checkpoint, as in `{first}`",
        )
    return found


def make_place_below(
    folder: FolderOfCheckpoints, path: str, storage: Mapping[str, str]
) -> CheckpointPlace:
    """Return the place of one checkpoint of a folder."""
    parent, _, name = path.rpartition("/")
    return CheckpointPlace(
        url=f"{folder.url}/{path}",
        name=name,
        reader=Subfolder(folder.reader, path),
        parent=Subfolder(folder.reader, parent),
        storage=storage,
    )


def _make_place(url: str, reader: Reader, storage: Mapping[str, str]) -> CheckpointPlace:
    parent = _find_parent(url)
    return CheckpointPlace(
        url=url,
        name=url.rpartition("/")[2],
        reader=reader,
        parent=open_reader(parent, storage) if parent else None,
        storage=storage,
    )


def _find_parent(url: str) -> str:
    """Return the parent folder of a location; empty for a root or a bucket."""
    parent = url.rpartition("/")[0]
    if urls.is_local(url):
        return parent or "/"
    return "" if parent.endswith((":/", "/")) else parent


def _suggest_above(url: str, storage: Mapping[str, str]) -> str:
    """Return a hint for a location without a checkpoint: the nearest folder that exists."""
    parent = _find_owner(url, storage) or _find_parent(url)
    while parent not in ("", "/"):
        inside = open_reader(parent, storage).children("")
        if isinstance(inside, Children) and (inside.files or inside.folders):
            break
        parent = _find_parent(parent)
    if not parent:
        return f"check the spelling of `{url}`: its parent folders do not exist either"
    return f"inspect the folder above: {_format_inspect(parent)}"


def _find_owner(url: str, storage: Mapping[str, str]) -> str:
    """Return the checkpoint that a location is a part of, or an empty text."""
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
    """Return a command that can be copied, whatever characters the path has."""
    return f"`{shlex.join(['holdfast', 'inspect', place])}`"


def _get_last_names(url: str) -> str:
    """Return the last two names of a location."""
    return "/".join(url.split("/")[-2:])


def _make_refusal_error(
    location: str, url: str, storage: Mapping[str, str], refused: Refused
) -> LocationForbidden | NotACheckpoint | StorageUnavailable:
    if "directory" in refused.reason:
        folder = _find_owner(url, storage) or location.rstrip("/").rpartition("/")[0] or "."
        return NotACheckpoint(
            f"`{location}` is a file, not a checkpoint",
            hint=f"name the folder of the checkpoint, as in {_format_inspect(folder)}",
        )
    message = f"cannot list `{location}`: {refused.reason}"
    if refused.forbidden:
        return LocationForbidden(message, hint=OTHER_USER)
    return StorageUnavailable(message, hint=_suggest_above(url, storage))


def _make_nothing_error(
    location: str, url: str, top: Children, result: "SearchResult"
) -> LocationForbidden | NotACheckpoint:
    """Return the error for a folder that was searched without finding a checkpoint."""
    alike = recognise.describe_folder(_get_last_names(url), top) or (
        recognise.RDDS if result.has_rdds else ""
    )
    message = f"`{location}` is not a checkpoint" + (f": it looks like {alike}" if alike else "")
    forbidden = [folder for folder in result.refused if folder.forbidden]
    if forbidden:
        return LocationForbidden(
            f"{message}; this user may not list folders below it: {_format_first(forbidden)}"
            f" ({forbidden[0].reason})",
            hint=OTHER_USER,
        )
    hint = "name the `checkpointLocation` of the query, or a folder"
    left = result.unsearched or result.refused
    if left:
        message += f"; not all of it was searched: {_format_first(left)} ({left[0].reason})"
        hint += " nearer to it"
    else:
        below = "" if alike else ", and there is none below it"
        message += f"{below} ({_format_names(top)})"
        hint += " that contains checkpoints"
    if result.unsearched and left[0].path != ".":
        hint += f", as in {_format_inspect(f'{url}/{left[0].path}')}"
    return NotACheckpoint(message, hint=hint)


def _format_first(refused: Sequence[Refused]) -> str:
    more = f" and {len(refused) - 1:,} more" if len(refused) > 1 else ""
    return f"`{refused[0].path}`{more}"


def _format_names(top: Children) -> str:
    files = sorted((file.name for file in top.files), key=lambda name: name.startswith("."))
    names = [*(f"{name}/" for name in top.folders), *files]
    return ", ".join(f"`{name}`" for name in names[:5]) + (", …" if len(names) > 5 else "")  # noqa: PLR2004
