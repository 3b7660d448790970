"""Evidence -> JSON for programs. `inspect.schema.json` describes it; `format` is its version.

A fact is an object with a `status`, which decides the other keys:

    known        value, read_from; inferred too, if no file contains the value itself
    absent       reason
    unreadable   path, reason
    unknown      reason
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, assert_never

from holdfast.model.checkpoint import ColumnFamily
from holdfast.model.evidence import Evidence, LedgerEvidence, SourceEvidence, Start, TimelineBatch
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.ids import Span
from holdfast.model.json import Json
from holdfast.model.lease import Lease
from holdfast.model.source_offset import ConsumedRange
from holdfast.model.state import OperatorEvidence, StoreEvidence
from holdfast.model.version import VERSION
from holdfast.report import redact, verdict, words

FORMAT = 1

T = TypeVar("T")


def to_json(evidence: Evidence) -> Json:
    """Return the whole evidence, without secrets."""
    judged = verdict.judge(evidence)
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "looked_at": words.format_iso_time(evidence.observed_ms),
            "location": evidence.location.value,
            "verdict": {"level": judged.level.value, "text": judged.text},
            "evidence": _facts_to_json(evidence),
            "batches": {
                "first": evidence.batches.first,
                "last_planned": evidence.batches.last_planned,
                "last_committed": evidence.batches.last_committed,
                "pending": list(evidence.batches.pending),
                "missing_offsets": _spans_to_json(evidence.batches.missing_offsets),
                "missing_commits": _spans_to_json(evidence.batches.missing_commits),
                "recent": [_batch_to_json(batch) for batch in evidence.timeline],
                "unlisted": [unreadable_to_json(file) for file in evidence.batches.unlisted],
                "continuous": evidence.batches.continuous,
            },
            "sources": [source_to_json(source) for source in evidence.sources],
            "operators": [_operator_to_json(operator) for operator in evidence.operators],
            "files": {
                kind.value: {"count": amount.count, "bytes": amount.bytes}
                for kind, amount in evidence.files.items()
            },
            "unreadable": [unreadable_to_json(file) for file in evidence.unreadable],
            "unreadable_more": evidence.unreadable_more,
            "settings": dict(redact.settings(evidence.settings)),
            "ledgers": [_ledger_to_json(ledger) for ledger in evidence.ledgers],
            "lease": _lease_to_json(evidence.lease, held=evidence.driver_runs),
            "foreign": list(evidence.foreign),
            "nested": list(evidence.nested),
        }
    )


def fact_to_json(fact: Fact[T], value_to_json: Callable[[T], Json]) -> Json:
    """Return a fact as JSON; `value_to_json` converts its value."""
    match fact:
        case Known(value=value, read_from=read_from, inferred=inferred):
            known: dict[str, Json] = {
                "status": "known",
                "value": value_to_json(value),
                "read_from": list(read_from),
            }
            return {**known, "inferred": inferred} if inferred else known
        case Absent(reason=reason):
            return {"status": "absent", "reason": reason}
        case UnreadableFile(path=path, reason=reason):
            return {"status": "unreadable", "path": path, "reason": reason}
        case Unknown(reason=reason):
            return {"status": "unknown", "reason": reason}
        case _:
            assert_never(fact)


def _facts_to_json(evidence: Evidence) -> Json:
    raw = {source.name: source.raw for source in evidence.sources}
    return {
        "checkpoint_location": fact_to_json(evidence.location, str),
        "query_id": fact_to_json(evidence.query_id, str),
        "source_offsets": fact_to_json(
            evidence.source_offsets, lambda names: {name: raw[name] for name in names}
        ),
        "sink": fact_to_json(evidence.sink, str),
        "output_mode": fact_to_json(evidence.output_mode, str),
        "stateful_operators": fact_to_json(evidence.stateful_operators, list),
        "state_store_provider": fact_to_json(evidence.state_store_provider, str),
        "spark_version": fact_to_json(evidence.spark_version, str),
        "restart_history": fact_to_json(
            evidence.restart_history, lambda starts: [_start_to_json(start) for start in starts]
        ),
    }


def source_to_json(source: SourceEvidence) -> Json:
    """Return one source, with what a batch took from it."""
    return {
        "name": source.name,
        "batch": source.batch,
        "after": source.after,
        "kind": source.kind,
        "or_kinds": list(source.other_kinds),
        "description": source.described,
        "same_as": None
        if source.same_as is None
        else {"name": source.same_as.name, "inferred": source.same_as.inferred},
        "offset": source.raw,
        "began": source.began,
        "consumed": _consumed_to_json(source.consumed),
        "files": list(source.files),
        "files_more": source.files_more,
        "log_offsets_unread": source.log_offsets_unread,
        "read_from": list(source.read_from),
    }


def unreadable_to_json(file: UnreadableFile) -> Json:
    """Return a file that cannot be read."""
    return {"path": file.path, "reason": file.reason}


def _consumed_to_json(consumed: ConsumedRange) -> Json:
    return {
        "unit": consumed.unit,
        "total": _number_to_json(consumed.total),
        "partitions": [
            {
                "partition": change.partition,
                "start": change.start,
                "end": change.end,
                "count": _number_to_json(change.count),
                "change": change.change.value,
            }
            for change in consumed.partitions
        ],
    }


def _batch_to_json(batch: TimelineBatch) -> Json:
    return {
        "batch": batch.batch,
        "planned_at": words.format_iso_time(batch.planned_ms),
        "committed_at": words.format_iso_time(batch.committed_ms),
        "rows": _number_to_json(batch.rows),
        "records": _number_to_json(batch.records),
        "unit": batch.unit,
        "watermark_ms": _number_to_json(batch.watermark_ms),
        "standing": batch.standing.value,
    }


def _start_to_json(start: Start) -> Json:
    return {
        "sign": start.sign.value,
        "at": words.format_iso_time(start.at_ms),
        "run_id": start.run_id,
        "first_batch": start.first_batch,
        "ended_at": words.format_iso_time(start.ended_ms),
        "error": start.error,
        "spark_version": start.spark_version,
        "note": start.note,
        "read_from": start.read_from,
    }


def _operator_to_json(operator: OperatorEvidence) -> Json:
    return {
        "operator": operator.operator,
        "name": fact_to_json(operator.name, str),
        "partitions": operator.partitions,
        "left_over_partitions": operator.left_over,
        "rows": _number_to_json(operator.rows),
        "bytes": operator.bytes,
        "latest_version": operator.latest_version,
        "oldest_restorable_batch": operator.oldest_batch,
        "newest_restorable_batch": operator.newest_batch,
        "restorable_batches": (
            None
            if isinstance(operator.restorable, Unknown)
            else _spans_to_json(operator.restorable)
        ),
        "schema": {name: _families_to_json(families) for name, families in operator.schema.items()},
        "properties": operator.properties,
        "stores": [_store_to_json(store) for store in operator.stores],
        "stores_without_files": [
            {"partition": partition, "store": store} for partition, store in operator.absent
        ],
        "unlisted": [unreadable_to_json(file) for file in operator.unlisted],
    }


def _families_to_json(families: Sequence[ColumnFamily]) -> Json:
    return [
        {
            "name": family.name,
            "key": [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in family.key],
            "value": [
                {"name": c.name, "type": c.type, "nullable": c.nullable} for c in family.value
            ],
        }
        for family in families
    ]


def _store_to_json(store: StoreEvidence) -> Json:
    return {
        "partition": store.partition,
        "store": store.store,
        "latest_version": store.latest_version,
        "snapshot_versions": _spans_to_json(store.snapshots),
        "restorable_versions": _spans_to_json(store.restorable),
        "oldest_restorable_batch": store.restorable[0].first - 1 if store.restorable else None,
        "files": store.files,
        "bytes": store.bytes,
        "rows": _number_to_json(store.rows),
    }


def _ledger_to_json(ledger: LedgerEvidence) -> Json:
    batch: Mapping[str, Json] = (
        {"batch": None, "reason": ledger.batch.reason}
        if isinstance(ledger.batch, Absent | Unknown)
        else {"batch": ledger.batch, "reason": ""}
    )
    return {"table": ledger.table, "key": ledger.key, "note": ledger.note, **batch}


def _lease_to_json(lease: Lease | None, *, held: bool) -> Json:
    if lease is None:
        return None
    return {
        "job": lease.job,
        "epoch": lease.epoch,
        "host": lease.holder.host,
        "pid": lease.holder.pid,
        "heartbeat_at": words.format_iso_time(lease.heartbeat_ms),
        "held": held,
    }


def _spans_to_json(spans: Sequence[Span]) -> Json:
    return [[span.first, span.last] for span in spans]


def _number_to_json(number: int | Unknown) -> int | None:
    return None if isinstance(number, Unknown) else number
