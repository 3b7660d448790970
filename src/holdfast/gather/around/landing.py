"""Stage 2: the landing folder of a file source, beside the log of what was read. Reads only.

    sources/0/9.compact   {"path":"file:///landing/a.json","timestamp":1767225600000,"batchId":3}
    /landing              a.json of 1767225600000, b.json of 1767229200000, …

Only where the whole log is read is a file that is not in it one that was never read. It and the
folder may be long: beyond a bound the question stays open, and that is said.
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
_MOST_ASKED = 500
_DESCRIBED = re.compile(r"FileStreamSource\[(?P<path>.+)\]")
_GLOB = frozenset("*?[{\\")
_SINK_LOG = "_spark_metadata"

_FilesByName = dict[str, File]


@dataclass(slots=True)
class _Listing:
    """Files by folder; `seen` counts also those that no source reads."""

    folders: dict[str, _FilesByName] = field(default_factory=dict)
    seen: int = 0
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoggedFiles:
    """The files of a log, each with its last time and log offset, and the folders they lie in.

    `spelled` are the paths of a folder in the log, decoded, by where it is; the last read first.
    `whole` is whether it is all of the log, or the end of a long one.
    """

    whole: bool
    newest_ms: int
    files: dict[str, tuple[str, str]]
    spelled: Mapping[str, Sequence[str]]

    def told(self, folder: str, name: str) -> tuple[int, int] | None:
        """Time and log offset of a file, if the log has it."""
        for path in self.spelled.get(folder, ()):
            found = self.files.get(f"{path}/{name}")
            if found is not None:
                return int(found[0]), int(found[1])
        return None


def inspect(place: CheckpointPlace, evidence: Evidence) -> Mapping[str, LandingFolder | Unknown]:
    """The landing folder of each file source."""
    found: dict[str, LandingFolder | Unknown] = {}
    for one in evidence.sources:
        if not isinstance(one.offset, FileOffset) or one.same_as is not None:
            continue
        if isinstance(one.folder, Unknown):
            reason = f"which log is its own is not known: {one.folder.reason}"
            found[one.name] = Unknown(reason=reason)
            continue
        logged = _read_log(place.reader, one.folder, evidence.source_logs.get(one.folder))
        found[one.name] = (
            logged if isinstance(logged, Unknown) else _inspect_source(place, one, logged)
        )
    return found


def _inspect_source(
    place: CheckpointPlace, source: SourceEvidence, logged: _LoggedFiles
) -> LandingFolder | Unknown:
    told = _DESCRIBED.fullmatch(source.described)
    reads = _locate(told["path"]) if told else ""
    named = bool(reads) and not _GLOB & set(reads)
    roots = [reads] if named else _find_roots(tuple(logged.spelled))
    if not all(_is_reachable(one, place.url) for one in roots):
        return Unknown(reason="its files are not on this machine")
    try:
        listed = _list_files(roots, logged, place.storage)
    except StorageUnavailable as error:
        return Unknown(reason=str(error))
    if isinstance(listed, Unknown):
        return listed
    if len(logged.spelled) > _MOST_FOLDERS and not named:
        listed.left_out = f"only the {_MOST_FOLDERS} folders that were read last are looked at"
    if not logged.whole:
        listed.left_out = "its log is long, and only the files in its last 1 MB are known"
    if listed.left_out:
        _look_up_files(logged, listed)
    rewritten, unread = _compare_files(logged, listed)
    return LandingFolder(
        pattern=reads,
        newest_ms=logged.newest_ms,
        rewritten=rewritten,
        unread=unread if logged.whole else (),
        not_checked=listed.left_out,
    )


def _read_log(reader: Reader, name: str, log: SourceLog | None) -> _LoggedFiles | Unknown:
    """What a start reads of the log: the last compacted entry, and every entry after it."""
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
            return Unknown(reason=f"`{piece.path}` is not read: {reason}")
        whole = whole and len(data) < _MOST_LOG
        # The first line is the version, or cut in the middle: neither is a file.
        text = unquote(data.decode("utf-8", "replace").rstrip("\n"))
        before = len(lines)
        lines += file_source_log.scan(text)
        if len(lines) - before != text.count("\n"):
            return Unknown(reason=f"`{piece.path}` has lines that cannot be read")
    return _index_lines(lines, whole=whole)


def _index_lines(lines: Sequence[tuple[str, str, str]], *, whole: bool) -> _LoggedFiles:
    spelled: dict[str, list[str]] = {}
    for folder in dict.fromkeys(path.rpartition("/")[0] for path, _, _ in reversed(lines)):
        spelled.setdefault(_locate(folder), []).append(folder)
    return _LoggedFiles(
        whole=whole,
        newest_ms=max((int(timestamp_ms) for _, timestamp_ms, _ in lines), default=0),
        files={path: (timestamp_ms, log_offset) for path, timestamp_ms, log_offset in lines},
        spelled=spelled,
    )


def _locate(path: str) -> str:
    """A folder as the readers want it, from a path without URL encoding."""
    if path.startswith(("file:", "/")):
        return "/" + path.removeprefix("file:").strip("/")
    return urls.to_rust_url(path).rstrip("/")


def _is_reachable(folder: str, checkpoint: str) -> bool:
    """Whether a folder is here, or in the bucket of the checkpoint, which has answered already."""
    if urls.is_local(folder):
        return True
    same = urlsplit(folder).netloc == urlsplit(checkpoint).netloc
    return urls.is_s3(folder) and urls.is_s3(checkpoint) and same


def _find_roots(folders: Sequence[str]) -> list[str]:
    """The folders that lie in none of the others, without those of partition columns."""
    roots = list(dict.fromkeys(strip_partitions(one) for one in folders[:_MOST_FOLDERS]))
    return [one for one in roots if not any(one.startswith(f"{other}/") for other in roots)]


def strip_partitions(folder: str) -> str:
    """The folder that is read, of one that a file lies in."""
    while "=" in folder.rpartition("/")[2]:
        folder = folder.rpartition("/")[0]
    return folder


def _list_files(
    roots: Sequence[str], logged: _LoggedFiles, storage: Mapping[str, str]
) -> _Listing | Unknown:
    listed = _Listing()
    for root in roots:
        if urls.is_local(root) and not Path(root).is_dir():
            return Unknown(reason=f"`{root}` is not there")
        reader = open_reader(root, storage)
        if isinstance(reader.children(_SINK_LOG), Children):
            return Unknown(reason=f"`{root}` is written by Spark's file sink, whose log is read")
        for found in reader.walk([""]):
            if not isinstance(found, Portion):
                return Unknown(reason=f"`{root}` cannot be listed: {found.reason}")
            folder = f"{root}/{found.folder}" if found.folder else root
            if folder in logged.spelled or _is_partition_path(found.folder):
                listed.folders.setdefault(folder, {}).update(
                    (file.name, file) for file in found.files
                )
            listed.seen += len(found.files)
            if listed.seen >= _MOST_LISTED:
                listed.left_out = f"only {listed.seen:,} files are looked at, and there may be more"
                return listed
    return listed


def _is_partition_path(folder: str) -> bool:
    """Whether Spark enters a folder below the one that it reads: by names as `day=1` alone."""
    return not folder or all("=" in one for one in folder.split("/"))


def _look_up_files(logged: _LoggedFiles, listed: _Listing) -> None:
    """The files that were read last, one by one, where not all could be listed."""
    places = {path: place for place, paths in logged.spelled.items() for path in paths}
    for path in islice(reversed(logged.files), _MOST_ASKED):
        folder, _, name = path.rpartition("/")
        names = listed.folders.setdefault(places[folder], {})
        if name in names or not places[folder].startswith("/"):
            continue
        try:
            status = Path(places[folder], name).stat()
        except (OSError, ValueError):
            continue  # it is gone, or no file can have such a name
        names[name] = File(name, status.st_size, status.st_mtime_ns // 1_000_000)


def _compare_files(
    logged: _LoggedFiles, listed: _Listing
) -> tuple[tuple[RewrittenFile, ...], tuple[UnreadFile, ...]]:
    rewritten: list[RewrittenFile] = []
    unread: list[UnreadFile] = []
    for folder, names in listed.folders.items():
        for name, file in names.items():
            told = logged.told(folder, name)
            if told is None:
                # Spark passes over such names; an empty file has no rows.
                ignored = name.startswith(("_", ".")) or name.endswith("._COPYING_")
                if not ignored and file.size:
                    unread.append(UnreadFile(path=f"{folder}/{name}", modified_ms=file.modified_ms))
            elif not _is_same_time(told[0], file.modified_ms):
                rewritten.append(
                    RewrittenFile(
                        path=f"{folder}/{name}",
                        logged_ms=told[0],
                        modified_ms=file.modified_ms,
                        log_offset=told[1],
                    )
                )
    return tuple(rewritten), tuple(unread)


def _is_same_time(one_ms: int, other_ms: int) -> bool:
    """Whether two times are one: object stores, Java 8 and archives know no milliseconds."""
    coarse = one_ms % 1000 == 0 or other_ms % 1000 == 0
    return one_ms == other_ms or (coarse and one_ms // 1000 == other_ms // 1000)
