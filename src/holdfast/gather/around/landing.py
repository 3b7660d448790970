"""The landing folder of a file source, compared with the log of files that were read. Reads only.

    sources/0/9.compact   {"path":"file:///landing/a.json","timestamp":1767225600000,"batchId":3}
    /landing              a.json of 1767225600000, b.json of 1767229200000, …

A file that is not in the log was never read, but only if the whole log was read. The log and the
folder may be long: beyond a bound the question stays open, and the report says so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.decode import file_source_log
from holdfast.errors import StorageUnavailable
from holdfast.gather.evidence import CheckpointPlace
from holdfast.model.evidence import Evidence, SourceEvidence, SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.source_offset import FileOffset
from holdfast.model.surroundings import LandingFolder, RewrittenFile, UnreadFile
from holdfast.storage import Children, File, Piece, Portion, Reader, Refused, open_reader, urls

_MOST_LOG = 1 << 20
_MOST_ENTRIES = 256
_MOST_FOLDERS = 64
_MOST_LISTED = 4000
_MOST_CHECKED = 500
_DESCRIBED = re.compile(r"FileStreamSource\[(?P<path>.+)\]")
_GLOB = frozenset("*?[{\\")
_SINK_LOG = "_spark_metadata"

_FilesByName = dict[str, File]


@dataclass(slots=True)
class _Listing:
    """Files by folder; `count` includes files that no source reads."""

    folders: dict[str, _FilesByName] = field(default_factory=dict)
    count: int = 0
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoggedFiles:
    """The files in a log, each with its last time and log offset, and their folders.

    `spellings` maps a folder to its paths in the log, decoded, the last one that was read first.
    `whole` is whether this is the whole log, or only the end of a long one.
    """

    whole: bool
    newest_ms: int
    files: dict[str, tuple[str, str]]
    spellings: Mapping[str, Sequence[str]]

    def find(self, folder: str, name: str) -> tuple[int, int] | None:
        """Return the time and the log offset of a file, if the log has it."""
        for path in self.spellings.get(folder, ()):
            entry = self.files.get(f"{path}/{name}")
            if entry is not None:
                return int(entry[0]), int(entry[1])
        return None


def inspect(place: CheckpointPlace, evidence: Evidence) -> Mapping[str, LandingFolder | Unknown]:
    """Return the landing folder of each file source."""
    folders: dict[str, LandingFolder | Unknown] = {}
    for source in evidence.sources:
        if not isinstance(source.offset, FileOffset) or source.same_as is not None:
            continue
        if isinstance(source.folder, Unknown):
            reason = f"it is unknown which log belongs to it: {source.folder.reason}"
            folders[source.name] = Unknown(reason=reason)
            continue
        logged = _read_log(place.reader, source.folder, evidence.source_logs.get(source.folder))
        folders[source.name] = (
            logged if isinstance(logged, Unknown) else _inspect_source(place, source, logged)
        )
    return folders


def _inspect_source(
    place: CheckpointPlace, source: SourceEvidence, logged: _LoggedFiles
) -> LandingFolder | Unknown:
    description = _DESCRIBED.fullmatch(source.described)
    pattern = _locate(description["path"]) if description else ""
    is_folder = bool(pattern) and not _GLOB & set(pattern)
    roots = [pattern] if is_folder else _find_roots(tuple(logged.spellings))
    if not all(_is_reachable(root, place.url) for root in roots):
        return Unknown(reason="its files are not on this machine")
    try:
        listed = _list_files(roots, logged, place.storage)
    except StorageUnavailable as error:
        return Unknown(reason=str(error))
    if isinstance(listed, Unknown):
        return listed
    if len(logged.spellings) > _MOST_FOLDERS and not is_folder:
        listed.left_out = f"only the {_MOST_FOLDERS} folders that were read last are checked"
    if not logged.whole:
        listed.left_out = "its log is long, and only the files in its last 1 MB are known"
    if listed.left_out:
        _look_up_files(logged, listed)
    rewritten, unread = _compare_files(logged, listed)
    return LandingFolder(
        pattern=pattern,
        newest_ms=logged.newest_ms,
        rewritten=rewritten,
        unread=unread if logged.whole else (),
        not_checked=listed.left_out,
    )


def _read_log(reader: Reader, name: str, log: SourceLog | None) -> _LoggedFiles | Unknown:
    """Return what a start reads: the last compacted entry, and every entry after it."""
    spans = log.entries if log else ()
    last = max((span.last for span in log.compacts), default=-1) if log else -1
    wanted = sum(max(0, span.last - max(last, span.first - 1)) for span in spans)
    if wanted > _MOST_ENTRIES:
        return Unknown(reason=f"its log has {wanted:,} entries that are not compacted")
    paths = [f"sources/{name}/{last}.compact"] if last >= 0 else []
    for span in spans:
        numbers = range(max(last + 1, span.first), span.last + 1)
        paths += [f"sources/{name}/{number}" for number in numbers]
    lines: list[tuple[str, str, str]] = []
    whole = True
    pieces = [Piece(path=path, most=_MOST_LOG, last=True) for path in paths]
    for piece, data in reader.read(pieces):
        if not isinstance(data, bytes):
            reason = data.reason if isinstance(data, Refused) else "it is gone"
            return Unknown(reason=f"`{piece.path}` was not read: {reason}")
        whole = whole and len(data) < _MOST_LOG
        # The first line is the version, or is cut: neither is a file.
        text = unquote(data.decode("utf-8", "replace").rstrip("\n"))
        before = len(lines)
        lines += file_source_log.scan(text)
        if len(lines) - before != text.count("\n"):
            return Unknown(reason=f"`{piece.path}` has lines that cannot be read")
    return _index_lines(lines, whole=whole)


def _index_lines(lines: Sequence[tuple[str, str, str]], *, whole: bool) -> _LoggedFiles:
    spellings: dict[str, list[str]] = {}
    for folder in dict.fromkeys(path.rpartition("/")[0] for path, _, _ in reversed(lines)):
        spellings.setdefault(_locate(folder), []).append(folder)
    return _LoggedFiles(
        whole=whole,
        newest_ms=max((int(timestamp_ms) for _, timestamp_ms, _ in lines), default=0),
        files={path: (timestamp_ms, log_offset) for path, timestamp_ms, log_offset in lines},
        spellings=spellings,
    )


def _locate(path: str) -> str:
    """Return the folder in the form that readers take, from a path without URL encoding."""
    if path.startswith(("file:", "/")):
        return "/" + path.removeprefix("file:").strip("/")
    return urls.to_rust_url(path).rstrip("/")


def _is_reachable(folder: str, checkpoint: str) -> bool:
    """Return whether a folder is on this machine, or in the bucket of the checkpoint."""
    if urls.is_local(folder):
        return True
    same_bucket = urlsplit(folder).netloc == urlsplit(checkpoint).netloc
    return urls.is_s3(folder) and urls.is_s3(checkpoint) and same_bucket


def _find_roots(folders: Sequence[str]) -> list[str]:
    """Return the folders that are in no other folder, without partition folders."""
    roots = list(dict.fromkeys(strip_partitions(folder) for folder in folders[:_MOST_FOLDERS]))
    return [root for root in roots if not any(root.startswith(f"{other}/") for other in roots)]


def strip_partitions(folder: str) -> str:
    """Return the folder that the source reads, from the folder of one of its files."""
    while "=" in folder.rpartition("/")[2]:
        folder = folder.rpartition("/")[0]
    return folder


def _list_files(
    roots: Sequence[str], logged: _LoggedFiles, storage: Mapping[str, str]
) -> _Listing | Unknown:
    listed = _Listing()
    for root in roots:
        if urls.is_local(root) and not Path(root).is_dir():
            return Unknown(reason=f"`{root}` does not exist")
        reader = open_reader(root, storage)
        if isinstance(reader.children(_SINK_LOG), Children):
            return Unknown(
                reason=f"Spark's file sink writes `{root}`, so the source reads the sink's log"
            )
        for portion in reader.walk([""]):
            if not isinstance(portion, Portion):
                return Unknown(reason=f"`{root}` cannot be listed: {portion.reason}")
            folder = f"{root}/{portion.folder}" if portion.folder else root
            if folder in logged.spellings or _is_partition_path(portion.folder):
                listed.folders.setdefault(folder, {}).update(
                    (file.name, file) for file in portion.files
                )
            listed.count += len(portion.files)
            if listed.count >= _MOST_LISTED:
                listed.left_out = f"only {listed.count:,} files are checked, and there may be more"
                return listed
    return listed


def _is_partition_path(folder: str) -> bool:
    """Return whether Spark enters a folder below the one it reads: only names like `day=1`."""
    return not folder or all("=" in name for name in folder.split("/"))


def _look_up_files(logged: _LoggedFiles, listed: _Listing) -> None:
    """Add the files that were read last, one by one, because not all could be listed."""
    places = {path: place for place, paths in logged.spellings.items() for path in paths}
    for path in islice(reversed(logged.files), _MOST_CHECKED):
        folder, _, name = path.rpartition("/")
        names = listed.folders.setdefault(places[folder], {})
        if name in names or not places[folder].startswith("/"):
            continue
        try:
            status = Path(places[folder], name).stat()
        except (OSError, ValueError):
            continue  # the file is gone, or no file can have this name
        names[name] = File(name, status.st_size, status.st_mtime_ns // 1_000_000)


def _compare_files(
    logged: _LoggedFiles, listed: _Listing
) -> tuple[tuple[RewrittenFile, ...], tuple[UnreadFile, ...]]:
    rewritten: list[RewrittenFile] = []
    unread: list[UnreadFile] = []
    for folder, names in listed.folders.items():
        for name, file in names.items():
            entry = logged.find(folder, name)
            if entry is None:
                # Spark ignores such names; an empty file has no rows.
                ignored = name.startswith(("_", ".")) or name.endswith("._COPYING_")
                if not ignored and file.size:
                    unread.append(UnreadFile(path=f"{folder}/{name}", modified_ms=file.modified_ms))
            elif not _is_same_time(entry[0], file.modified_ms):
                rewritten.append(
                    RewrittenFile(
                        path=f"{folder}/{name}",
                        logged_ms=entry[0],
                        modified_ms=file.modified_ms,
                        log_offset=entry[1],
                    )
                )
    return tuple(rewritten), tuple(unread)


def _is_same_time(logged_ms: int, modified_ms: int) -> bool:
    """Return whether two times are equal; object stores, Java 8 and archives round to seconds."""
    is_coarse = logged_ms % 1000 == 0 or modified_ms % 1000 == 0
    return logged_ms == modified_ms or (is_coarse and logged_ms // 1000 == modified_ms // 1000)
