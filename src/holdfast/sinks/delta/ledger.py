"""The ledger of a job inside a Delta table.

One app transaction a job, generation and output. Its version holds the driver's epoch and the
batch, so that it only grows, and so that Delta's own rule (a version that is not higher has been
written already) refuses an older driver in the same atomic step as the data:

    appId    holdfast/<job>/<generation>/<output>
    version  epoch * 2^40 + (batch id + 1)         0 in the low bits: no batch yet

The commit info of the same commit says which offsets the batch was read from. delta-rs puts it
under the key `holdfast`, Spark's Delta writer into `userMetadata`; both hold the same JSON.

    offsets  [{"source","start","end"}, …]         of the batch that the commit wrote
    carried  the same, of the last batch           in the commit of a driver's start
    decided_on  the version that the driver saw    where others may commit before it does
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import deltalake

from holdfast.model import ends, json
from holdfast.model.batch import (
    Batch,
    LastWritten,
    LedgerKey,
    NothingWritten,
    SinkPosition,
    Writer,
    WrittenBatch,
)
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch
from holdfast.model.json import Json

KEY = "holdfast"
CLEANED = "the commit was cleaned away"
RESTORE = "RESTORE"
_DECIDED_ON = "decided_on"
EXPIRY = "delta.setTransactionRetentionDuration"
_BATCH_BITS = 40
_HISTORY_STEPS = (20, 1_000)


def make_app_id(key: LedgerKey) -> str:
    """Return the application id that a job's transactions have in a table."""
    return str(key)


def pack(epoch: Epoch, batch: BatchId | None) -> int:
    """The app transaction's version for an epoch and the last batch written."""
    return (epoch << _BATCH_BITS) + (0 if batch is None else batch + 1)


def unpack(version: int) -> tuple[Epoch, BatchId | None]:
    """The epoch, and the last batch written if there is one."""
    low = version & ((1 << _BATCH_BITS) - 1)
    return Epoch(version >> _BATCH_BITS), BatchId(low - 1) if low else None


def transaction(app_id: str, version: int) -> deltalake.Transaction:
    """Return the app transaction of a commit by delta-rs, with its time.

    Without a time, a table that lets transactions expire forgets this one at once.
    """
    return deltalake.Transaction(app_id, version, last_updated=time.time_ns() // 1_000_000)


def format_batch(batch: Batch, app_id: str, *, decided_on: int | None = None) -> str:
    """What the commit of a batch says of it.

    Spark and delta-rs cannot be told after which version their commit is to stand: `decided_on` is
    the version on which the driver decided to write.
    """
    said = _make_entry(batch.life, app_id, batch.id, batch.digest)
    return json.to_canonical({**said, "offsets": batch.offsets, **_describe_decision(decided_on)})


def format_start(
    life: Writer, app_id: str, last: LastWritten, *, decided_on: int | None = None
) -> str:
    """What the commit of a driver's start says: the new epoch, and the last batch carried on."""
    seen = _describe_decision(decided_on)
    if not isinstance(last, WrittenBatch):
        return json.to_canonical({**_make_entry(life, app_id, None, None), "offsets": None, **seen})
    digest = None if isinstance(last.digest, Unknown) else last.digest
    carried = None if isinstance(last.offsets, Unknown) else last.offsets
    said = _make_entry(life, app_id, last.batch, digest)
    return json.to_canonical({**said, "offsets": None, "carried": carried, **seen})


def _describe_decision(decided_on: int | None) -> Mapping[str, Json]:
    return {} if decided_on is None else {_DECIDED_ON: decided_on}


def read_standing(table: deltalake.DeltaTable, app_id: str) -> SinkPosition:
    """Where the table stands with the job, without where its last batch ended: constant work."""
    version = table.transaction_version(app_id)
    if version is not None:
        epoch, batch = unpack(version)
        return SinkPosition(epoch=epoch, batch=batch)
    if EXPIRY in table.metadata().configuration:
        return _find_in_history(table, app_id)
    return SinkPosition(epoch=Epoch(0), batch=None)


def read_whole_standing(table: deltalake.DeltaTable, app_id: str) -> SinkPosition:
    """Where the table stands with the job, and where its last batch ended; reads its history."""
    now = read_standing(table, app_id)
    if now.batch is None:
        return now
    return replace(now, ended=ends.read_ends(find_offsets(table, app_id, now.batch)))


def _find_in_history(table: deltalake.DeltaTable, app_id: str) -> SinkPosition:
    """Where the table stands by what its commits say: readers forget transactions that expired."""
    entry = next(_walk_entries(table, app_id), {})
    epoch, batch = entry.get("epoch"), entry.get("batch")
    return SinkPosition(
        epoch=Epoch(epoch if isinstance(epoch, int) else 0),
        batch=BatchId(batch) if isinstance(batch, int) else None,
    )


def read_last_written(table: deltalake.DeltaTable, app_id: str) -> LastWritten:
    """What the table holds for the job, as evidence; reads the tail of its history."""
    now = read_standing(table, app_id)
    if now.epoch == 0:
        return NothingWritten(epoch=now.epoch, location=Unknown(reason="no driver has been there"))
    entry = next(_walk_entries(table, app_id), {})
    said = entry.get("location")
    location = said if isinstance(said, str) else Unknown(reason=CLEANED)
    batch = _find_last_batch(table, app_id, now.batch)
    if batch is None:
        return NothingWritten(epoch=now.epoch, location=location)
    return WrittenBatch(
        epoch=now.epoch,
        batch=batch,
        digest=recall(table, app_id, batch),
        location=location,
        taken_back=was_restored(table, app_id),
        offsets=find_offsets(table, app_id, batch),
    )


def _find_last_batch(
    table: deltalake.DeltaTable, app_id: str, carried: BatchId | None
) -> BatchId | None:
    """The last batch, where the start of a driver through Spark's writer carries an earlier one on.

    Such a start says which batch was last before it is known after which commit it will stand, and
    an older driver may commit in between. Every other commit of the ledger is right.
    """
    for commit in _walk_history(table):
        entry = parse_entry(commit)
        if entry.get("ledger") != app_id or (KEY not in commit and entry.get("offsets") is None):
            continue
        batch = entry.get("batch")
        if isinstance(batch, int) and (carried is None or batch > carried):
            return BatchId(batch)
        break
    return carried


def read_commit(data: bytes, app_id: str, transaction: int) -> WrittenBatch | NothingWritten:
    """What the table holds for the job, from the log entry that last moved its ledger."""
    epoch, batch = unpack(transaction)
    infos = (json.as_mapping(json.parse(line.decode())) for line in data.splitlines() if line)
    infos = (json.as_mapping(info.get("commitInfo")) for info in infos)
    entry: Mapping[str, Json] = next(
        (e for e in map(parse_entry, infos) if e.get("ledger") == app_id), {}
    )
    said, digest = entry.get("location"), entry.get("digest")
    location = said if isinstance(said, str) else Unknown(reason=CLEANED)
    if batch is None:
        return NothingWritten(epoch=epoch, location=location)
    return WrittenBatch(
        epoch=epoch,
        batch=batch,
        digest=Digest(digest) if isinstance(digest, str) else Unknown(reason="it says none"),
        location=location,
        taken_back=False,
        offsets=read_offsets(entry, batch),
    )


def was_restored(table: deltalake.DeltaTable, app_id: str) -> bool:
    """Whether the table was restored after the version on which the job's last commit was decided.

    A restore takes rows back and leaves app transactions as they are: the ledger then speaks of
    batches that are no longer there. A commit by Spark may stand after a restore that its driver
    did not see.
    """
    known: int | None = None
    for commit in _walk_history(table):
        version = commit.get("version")
        if known is not None and (not isinstance(version, int) or version <= known):
            return False
        if commit.get("operation") == RESTORE:
            return True
        entry = parse_entry(commit)
        if known is None and entry.get("ledger") == app_id:
            decided_on = entry.get(_DECIDED_ON)
            if not isinstance(decided_on, int):
                return False
            known = decided_on
    return False


def recall(table: deltalake.DeltaTable, app_id: str, batch: BatchId) -> Digest | Unknown:
    """The digest that a batch was written with, from the commit that wrote it."""
    for entry in _walk_entries(table, app_id):
        found, digest = entry.get("batch"), entry.get("digest")
        if found == batch and isinstance(digest, str):
            return Digest(digest)
        if isinstance(found, int) and found < batch and entry.get("offsets") is not None:
            break  # a batch before it was written here; a start may only carry one on
    return Unknown(reason=f"no commit in the table's log says so for batch {batch}")


def find_offsets(table: deltalake.DeltaTable, app_id: str, batch: BatchId) -> "Json | Unknown":
    """Return the ranges of a batch, by the commit that wrote it or a start that carried it on."""
    for entry in _walk_entries(table, app_id):
        offsets = read_offsets(entry, batch)
        if not isinstance(offsets, Unknown):
            return offsets
        found = entry.get("batch")
        if isinstance(found, int) and found < batch and entry.get("offsets") is not None:
            break
    return Unknown(reason=f"no commit in the table's log has the offsets of batch {batch}")


def read_offsets(entry: Mapping[str, Json], batch: BatchId) -> "Json | Unknown":
    """Return the ranges of the batch, if the entry is about that batch and has them."""
    if entry.get("batch") != batch:
        return Unknown(reason="the commit is about a different batch")
    offsets = entry.get("offsets")
    offsets = entry.get("carried") if offsets is None else offsets
    return Unknown(reason="the commit has no offsets") if offsets is None else offsets


def _walk_entries(table: deltalake.DeltaTable, app_id: str) -> Iterator[Mapping[str, Json]]:
    """The ledger's entries from the newest commit back."""
    for commit in _walk_history(table):
        entry = parse_entry(commit)
        if entry.get("ledger") == app_id:
            yield entry


def _walk_history(table: deltalake.DeltaTable) -> Iterator[Mapping[str, object]]:
    """The commits from the newest back, reading no more of the log than is asked for."""
    seen = 0
    for limit in (*_HISTORY_STEPS, None):
        commits = table.history(limit)
        yield from commits[seen:]
        if limit is None or limit > table.version():
            return
        seen = len(commits)


def parse_entry(commit: Mapping[str, object]) -> Mapping[str, Json]:
    """Return what a commit info says of a ledger; nothing where it says nothing."""
    text = commit.get(KEY) or commit.get("userMetadata")
    if not isinstance(text, str):
        return {}
    try:
        return json.as_mapping(json.parse(text))
    except (ValueError, RecursionError):
        return {}


def _make_entry(
    life: Writer, app_id: str, batch: BatchId | None, digest: Digest | None
) -> Mapping[str, Json]:
    return {
        "ledger": app_id,
        "job": life.job,
        "generation": life.generation,
        "epoch": life.epoch,
        "location": life.location,
        "batch": batch,
        "digest": digest,
    }
