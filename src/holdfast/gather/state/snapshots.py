"""RocksDB snapshots, which are zips -> their row counts, and whether they can be loaded.

A zip names the files of its version, with their sizes. Spark copies all of them and compares the
sizes. So a zip is damaged if it cannot be read, or if one of its files is missing or has a
different size. Only some zips are opened: first those that a start loads, then those of earlier
batches.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.decode import rocksdb_zip
from holdfast.gather.inventory.folders import FileSizes, StoreFiles, StoreKey
from holdfast.gather.state import stores
from holdfast.model.checkpoint import RocksDbSnapshot
from holdfast.model.fact import Unknown, Unreadable, UnreadableFile
from holdfast.storage import Children, Reader, Refused

_LIST_OF_MEMBERS = b"PK\1\2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotZip:
    """A snapshot of one store that is to be opened, and whether it is the newest."""

    key: StoreKey
    version: int
    newest: bool


def choose_zips(
    files: Mapping[StoreKey, StoreFiles], logged: stores.LoggedState
) -> dict[str, SnapshotZip]:
    """Return the zips to open, by path: those that a start loads, and the newest, for row counts.

    If the limit allows, also those that earlier batches in the logs need. Older zips do not matter:
    Spark removes them, and removes the files of a zip before the zip.
    """
    loaded: dict[str, SnapshotZip] = {}
    ahead: dict[str, SnapshotZip] = {}
    for key in sorted(files):
        store = files[key]
        path = stores.find_newest_snapshot(key, store, logged)
        if not path.endswith(".zip"):
            continue
        newest = SnapshotZip(key=key, version=store.newest_snapshots[0], newest=True)
        if newest.version <= logged.loads:
            loaded[path] = newest
            continue
        ahead[path] = newest
        before = store.snapshots.before(logged.loads + 1)
        loaded.update(_list_version_zips(key, store, logged, before) if before is not None else ())
    wanted = {**loaded, **ahead}
    if len(wanted) < stores.MOST_ZIPS:
        earlier = _find_earlier_zips({zip_.key for zip_ in wanted.values()}, files, logged)
        wanted |= {path: zip_ for path, zip_ in earlier.items() if path not in wanted}
    return dict(list(wanted.items())[: stores.MOST_ZIPS])


def _list_version_zips(
    key: StoreKey, store: StoreFiles, logged: stores.LoggedState, version: int
) -> Iterator[tuple[str, SnapshotZip]]:
    """Yield the zip of a version; if versions have unique ids, those that its commit names."""
    folder = store.newest_snapshots[1][0].rpartition("/")[0]
    ids = [f"_{unique_id}" for unique_id in logged.ids(key, version)] if store.unique_ids else [""]
    for suffix in ids:
        yield f"{folder}/{version}{suffix}.zip", SnapshotZip(key=key, version=version, newest=False)


def _find_earlier_zips(
    keys: Iterable[StoreKey], files: Mapping[StoreKey, StoreFiles], logged: stores.LoggedState
) -> dict[str, SnapshotZip]:
    """Return the zips that restoring a logged batch starts from, newest first."""
    first = logged.loads
    if not isinstance(logged.batches, Unknown) and logged.batches:
        first = min(first, logged.batches[0].first + 1)
    zipped: list[tuple[str, SnapshotZip]] = []
    for key in keys:
        store = files[key]
        lowest = store.snapshots.before(first + 1) or first
        for version in store.snapshots.tail(stores.MOST_ZIPS):
            if lowest <= version < store.newest_snapshots[0]:
                zipped += _list_version_zips(key, store, logged, version)
    return dict(sorted(zipped, key=lambda pair: (-pair[1].version, pair[0])))


def take(
    opened: stores.OpenedSnapshots,
    reader: Reader,
    path: str,
    snapshot: SnapshotZip,
    store: StoreFiles,
    data: bytes,
) -> None:
    """Add a zip that was read."""
    decoded = rocksdb_zip.decode(data)
    if isinstance(decoded, Unreadable):
        opened.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
        # Spark reads a zip from the front and stops at the list of its members: a zip that is
        # cut later is still whole for Spark.
        if _LIST_OF_MEMBERS not in data:
            opened.damage(snapshot.key, snapshot.version)
        return
    if snapshot.newest:
        opened.snapshots[snapshot.key] = decoded
    problem = _find_problem(reader, path, store, decoded)
    if problem is not None:
        opened.unreadable.setdefault(problem.path, problem)
        opened.damage(snapshot.key, snapshot.version)


def _find_problem(
    reader: Reader, path: str, store: StoreFiles, snapshot: RocksDbSnapshot
) -> UnreadableFile | None:
    """Return the first file of a snapshot that is missing or has a different size."""
    suspected = _find_mismatch(path, snapshot, store.rocksdb)
    if suspected is None:
        return None
    # A running query writes these files before the zip, and the listing may have come between.
    again = _list_again(reader, path.rpartition("/")[0])
    return None if again is None else _find_mismatch(path, snapshot, again)


def _find_mismatch(path: str, snapshot: RocksDbSnapshot, sizes: FileSizes) -> UnreadableFile | None:
    folder, _, zipped = path.rpartition("/")
    known = sizes.by_name()
    for kind, files in (("SSTs", snapshot.sst_files), ("logs", snapshot.log_files)):
        for file in files:
            size = known.get(hash(file.stored_name))
            name = f"{kind}/{file.stored_name}"
            if size is None:
                return UnreadableFile(path=path, reason=f"names `{name}`, which does not exist")
            if size != file.bytes:
                reason = f"has {size:,} bytes, expected {file.bytes:,}, as `{zipped}` says"
                return UnreadableFile(path=f"{folder}/{name}", reason=reason)
    return None


def _list_again(reader: Reader, folder: str) -> FileSizes | None:
    """Return the current RocksDB files of one store, or None if they cannot be listed."""
    sizes = FileSizes()
    for kind in ("SSTs", "logs"):
        match reader.children(f"{folder}/{kind}"):
            case Children(files=files):
                sizes.add(files)
            case Refused():
                return None
            case _:
                continue
    return sizes
