"""Stage 2: the zips of RocksDB -> how many rows they hold, and whether they can be loaded.

A zip names the files that belong to its version, with their sizes. Spark copies all of them, and
compares the sizes: a zip is damaged if it cannot be read, or if one of them is not there as named.
Only some zips are opened, those that a start loads first, then those of earlier batches.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.decode import rocksdb_zip
from holdfast.gather.inventory.folders import Sizes, Store, StoreKey
from holdfast.gather.state import stores
from holdfast.model.checkpoint import RocksDbSnapshot
from holdfast.model.fact import Unknown, Unreadable, UnreadableFile
from holdfast.storage import Children, Reader, Refused

_LIST_OF_MEMBERS = b"PK\1\2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zip:
    """A snapshot of one store to be opened, and whether it is the newest."""

    key: StoreKey
    version: int
    newest: bool


def zips(found: Mapping[StoreKey, Store], logged: stores.Logged) -> dict[str, Zip]:
    """The zips to open, by path: those that a start loads, and the newest, which tell rows.

    Where there is room, also the others that logged batches rest on. What lies below them Spark
    removes, the files that a zip names before the zip.
    """
    loaded: dict[str, Zip] = {}
    ahead: dict[str, Zip] = {}
    for key in sorted(found):
        store = found[key]
        path = stores.newest_snapshot(key, store, logged)
        if not path.endswith(".zip"):
            continue
        newest = Zip(key=key, version=store.newest_snapshots[0], newest=True)
        if newest.version <= logged.loads:
            loaded[path] = newest
            continue
        ahead[path] = newest
        before = store.snapshots.before(logged.loads + 1)
        loaded.update(_of_version(key, store, logged, before) if before is not None else ())
    wanted = {**loaded, **ahead}
    if len(wanted) < stores.MOST_ZIPS:
        earlier = _rested_on({one.key for one in wanted.values()}, found, logged)
        wanted |= {path: one for path, one in earlier.items() if path not in wanted}
    return dict(list(wanted.items())[: stores.MOST_ZIPS])


def _of_version(
    key: StoreKey, store: Store, logged: stores.Logged, version: int
) -> Iterator[tuple[str, Zip]]:
    """The zip of a version; where versions have ids, those that its commit names."""
    folder = store.newest_snapshots[1][0].rpartition("/")[0]
    for one in [f"_{one}" for one in logged.ids(key, version)] if store.unique_ids else [""]:
        yield f"{folder}/{version}{one}.zip", Zip(key=key, version=version, newest=False)


def _rested_on(
    keys: Iterable[StoreKey], found: Mapping[StoreKey, Store], logged: stores.Logged
) -> dict[str, Zip]:
    """The zips that batches of the logs begin at, newest first."""
    first = logged.loads
    if not isinstance(logged.batches, Unknown) and logged.batches:
        first = min(first, logged.batches[0].first + 1)
    zipped: list[tuple[str, Zip]] = []
    for key in keys:
        store = found[key]
        lowest = store.snapshots.before(first + 1) or first
        for version in store.snapshots.tail(stores.MOST_ZIPS):
            if lowest <= version < store.newest_snapshots[0]:
                zipped += _of_version(key, store, logged, version)
    return dict(sorted(zipped, key=lambda one: (-one[1].version, one[0])))


def take(
    opened: stores.Opened, reader: Reader, path: str, one: Zip, store: Store, data: bytes
) -> None:
    """Take in a zip that was read."""
    decoded = rocksdb_zip.decode(data)
    if isinstance(decoded, Unreadable):
        opened.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
        # Spark reads a zip from its front, and stops at the list of its members: to Spark, one
        # that is cut no earlier than that is whole.
        if _LIST_OF_MEMBERS not in data:
            opened.damage(one.key, one.version)
        return
    if one.newest:
        opened.snapshots[one.key] = decoded
    problem = _problem(reader, path, store, decoded)
    if problem is not None:
        opened.unreadable.setdefault(problem.path, problem)
        opened.damage(one.key, one.version)


def _problem(
    reader: Reader, path: str, store: Store, snapshot: RocksDbSnapshot
) -> UnreadableFile | None:
    """The first file of a snapshot that is not there as it names it."""
    suspected = _first(path, snapshot, store.rocksdb)
    if suspected is None:
        return None
    # A running query writes these files and then the zip, and the listing may lie in between.
    again = _listed_again(reader, path.rpartition("/")[0])
    return None if again is None else _first(path, snapshot, again)


def _first(path: str, snapshot: RocksDbSnapshot, sizes: Sizes) -> UnreadableFile | None:
    folder, _, zipped = path.rpartition("/")
    there = sizes.by_name()
    for kind, files in (("SSTs", snapshot.sst_files), ("logs", snapshot.log_files)):
        for file in files:
            size = there.get(hash(file.stored_name))
            name = f"{kind}/{file.stored_name}"
            if size is None:
                return UnreadableFile(path=path, reason=f"names `{name}`, which is not there")
            if size != file.bytes:
                reason = f"has {size:,} bytes, expected {file.bytes:,}, as `{zipped}` says"
                return UnreadableFile(path=f"{folder}/{name}", reason=reason)
    return None


def _listed_again(reader: Reader, folder: str) -> Sizes | None:
    """The files of RocksDB of one store as they are now; nothing where they cannot be listed."""
    sizes = Sizes()
    for kind in ("SSTs", "logs"):
        match reader.children(f"{folder}/{kind}"):
            case Children(files=files):
                sizes.add(files)
            case Refused():
                return None
            case _:
                continue
    return sizes
