"""The end of a Delta table's log: read as it grows, and added to.

    _delta_log/00000000000000000041.json     one action a line: commitInfo, txn, add, …

delta-rs and Spark look at every file of a table to commit to it, so that a batch costs more the
older the table is. An append needs none of that: it has to know what was committed since it last
looked, which are the log files with higher numbers, and to create the next one, which exactly one
writer can. What that asks of a writer beyond adding files (features, schema, partitions) is read
through delta-rs when the table is opened, and again when a commit changes it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import deltalake

from holdfast.errors import SinkBehind, SinkRefused, StorageUnavailable
from holdfast.model import advice, ends
from holdfast.model.batch import Batch, EndOffsets, SinkPosition
from holdfast.model.fact import Unknown
from holdfast.model.json import Json
from holdfast.model.version import VERSION
from holdfast.sinks.delta import ledger
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.parquet import AddedFile
from holdfast.storage import Folder, Missing, exclusive

_IDLE_SECONDS = 600.0
_END_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit, and where the table then stands with the job.

    `table` is the table as it was when its metadata last changed: its schema, features and
    partitions are right, its files are not looked at.
    """

    version: int
    standing: SinkPosition
    table: deltalake.DeltaTable
    native: bool
    partition_by: tuple[str, ...]

    def has_same_layout(self, other: "Head") -> bool:
        """Whether files that were written for the other head fit this one, too."""
        if self.table is other.table:
            return True
        return _list_demands(self) == _list_demands(other)


def _list_demands(head: Head) -> tuple[object, ...]:
    return head.native, head.partition_by, head.table.schema()


class LogTail:
    """Follows a table's log with constant work a batch."""

    def __init__(self, place: tables.DeltaLocation, store: Folder, app_id: str) -> None:
        self._place = place
        self._store = store
        self._app_id = app_id
        self._head: Head | None = None
        self._end: bytes | Missing = b""
        self._looked_at = 0.0

    def head(self) -> Head:
        """The newest commit; raises SinkBehind if the table was restored since the last look."""
        head, end = self._head, self._end
        if head is None or self._may_have_lost_track(head):
            head = self._opened()
            end = self._end_of(head)
        while not isinstance(data := self._store.read(name_entry(head.version + 1)), Missing):
            before, head = head.version, self._moved(head, data)
            end = data[-_END_BYTES:] if head.version == before + 1 else self._end_of(head)
        self._head, self._end = head, end
        self._looked_at = time.monotonic()
        return head

    def commit(self, head: Head, batch: Batch, files: Sequence[AddedFile]) -> bool:
        """Add the files and the ledger as the next commit; False if another writer was first."""
        text = format_commit(
            self._app_id,
            ledger.pack(batch.life.epoch, batch.id),
            ledger.format_batch(batch, self._app_id),
            head.partition_by,
            files,
        )
        return self._create(head, batch, text)

    def commit_merge(
        self, head: Head, batch: Batch, actions: Sequence[Mapping[str, object]]
    ) -> bool:
        """Commit added and removed files with the ledger; False if another writer was first."""
        now = time.time_ns() // 1_000_000
        info = {
            "timestamp": now,
            "operation": "MERGE",
            "operationParameters": {},
            "readVersion": head.version,
            "isBlindAppend": False,
            "engineInfo": f"holdfast/{VERSION}",
            ledger.KEY: ledger.format_batch(batch, self._app_id),
        }
        version = ledger.pack(batch.life.epoch, batch.id)
        transaction = {"appId": self._app_id, "version": version, "lastUpdated": now}
        lines = [{"commitInfo": info}, {"txn": transaction}, *actions]
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        return self._create(head, batch, text.encode())

    def _create(self, head: Head, batch: Batch, text: bytes) -> bool:
        if not exclusive.create(self._store, name_entry(head.version + 1), text):
            return False
        self._end = text[-_END_BYTES:]
        self._head = Head(
            version=head.version + 1,
            standing=SinkPosition(
                epoch=batch.life.epoch, batch=batch.id, ended=ends.read_ends(batch.offsets)
            ),
            table=head.table,
            native=head.native,
            partition_by=head.partition_by,
        )
        return True

    def _may_have_lost_track(self, head: Head) -> bool:
        """Whether this is another log by now, or one whose commits may have been cleaned away.

        The log is cleaned from its beginning, after hours or days: while the known commit is
        there, or was a few minutes ago, none after it is gone. If another commit has its number,
        the table was made anew, or a writer has overwritten it, as Spark's can on local disk.
        """
        idle = time.monotonic() - self._looked_at > _IDLE_SECONDS
        end = self._end_of(head)
        return idle or isinstance(end, Missing) or end != self._end

    def _end_of(self, head: Head) -> bytes | Missing:
        """What tells the newest commit from another of its number."""
        return self._store.read(name_entry(head.version), last=_END_BYTES)

    def _opened(self) -> Head:
        table = self._place.open()
        if table is None:
            raise SinkRefused(
                f"expected the Delta table `{self._place.path}`, found none any more",
                hint=f"restore `{self._place.path}`, then start again",
            )
        if ledger.was_restored(table, self._app_id):
            raise self._restored()
        return Head(
            version=table.version(),
            standing=ledger.read_whole_standing(table, self._app_id),
            table=table,
            native=not self._place.by_spark and tables.allows_native_append(table),
            partition_by=tuple(table.metadata().partition_columns),
        )

    def _moved(self, head: Head, data: bytes) -> Head:
        """The head after one more commit."""
        standing, said = head.standing, None
        for line in data.splitlines():
            action = json.loads(line) if line else {}
            info = ledger.parse_entry(action.get("commitInfo", {}))
            said = info if info.get("ledger") == self._app_id else said
            if "metaData" in action or "protocol" in action:
                return self._reopen(head)
            if action.get("commitInfo", {}).get("operation") == ledger.RESTORE:
                raise self._restored()
            if action.get("txn", {}).get("appId") == self._app_id:
                epoch, batch = ledger.unpack(action["txn"]["version"])
                standing = SinkPosition(epoch=epoch, batch=batch)
        if standing is not head.standing:
            standing = replace(standing, ended=_find_end(standing, said or {}, head.standing))
        return Head(
            version=head.version + 1,
            standing=standing,
            table=head.table,
            native=head.native,
            partition_by=head.partition_by,
        )

    def _reopen(self, head: Head) -> Head:
        """The head of the table as it is listed, which is further than what was read by name."""
        opened = self._opened()
        if opened.version <= head.version:
            raise StorageUnavailable(
                f"expected `{name_entry(head.version + 1)}` in the listing of"
                f" `{self._place.path}`, found nothing after version {opened.version}",
                hint=f"keep `{self._place.path}` where a listing shows what was written before it",
            )
        return opened

    def _restored(self) -> SinkBehind:
        return SinkBehind(
            f"expected the rows of `{self._place.path}` to stay, found that the table was"
            " restored to an earlier version while the job ran",
            hint=advice.BEHIND,
        )


def _find_end(
    now: SinkPosition, said: Mapping[str, Json], before: SinkPosition
) -> EndOffsets | Unknown:
    """Where the last batch ended, after a commit that moved the ledger.

    The start of a driver of an earlier version carries the batch on, and not where it ended.
    """
    if now.batch is None:
        return {}
    ended = ends.read_ends(ledger.read_offsets(said, now.batch))
    return before.ended if isinstance(ended, Unknown) and now.batch == before.batch else ended


def format_commit(
    app_id: str,
    transaction: int,
    said: str,
    partition_by: tuple[str, ...],
    files: Sequence[AddedFile],
) -> bytes:
    """The entry of a commit that moves the ledger and adds the files."""
    now = time.time_ns() // 1_000_000
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps(list(partition_by))},
        "isBlindAppend": True,
        "engineInfo": f"holdfast/{VERSION}",
        ledger.KEY: said,
    }
    actions: list[Mapping[str, object]] = [
        {"commitInfo": info},
        {"txn": {"appId": app_id, "version": transaction, "lastUpdated": now}},
        *({"add": _format_add(file)} for file in files),
    ]
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def name_entry(version: int) -> str:
    """The name of a log entry."""
    return f"_delta_log/{version:020d}.json"


def _format_add(file: AddedFile) -> Mapping[str, object]:
    return {
        "path": quote(file.path, safe="/=-_.~"),
        "partitionValues": dict(file.partition_values),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": file.stats,
    }
