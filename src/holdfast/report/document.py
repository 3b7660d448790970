"""Evidence -> JSON for programs, as `inspect.schema.json` describes it; `format` is its version.

A fact is an object with `status` and, by it:

    known        value, read_from, and inferred where no file says the value itself
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
    """The whole evidence, without secrets."""
    found = verdict.judge(evidence)
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "looked_at": words.format_iso_time(evidence.observed_ms),
            "location": evidence.location.value,
            "verdict": {"level": found.level.value, "text": found.text},
            "evidence": _facts_to_json(evidence),
            "batches": {
                "first": evidence.batches.first,
                "last_planned": evidence.batches.last_planned,
                "last_committed": evidence.batches.last_committed,
                "pending": list(evidence.batches.pending),
                "missing_offsets": _spans_to_json(evidence.batches.missing_offsets),
                "missing_commits": _spans_to_json(evidence.batches.missing_commits),
                "recent": [_batch_to_json(one) for one in evidence.timeline],
                "unlisted": [unreadable_to_json(one) for one in evidence.batches.unlisted],
                "continuous": evidence.batches.continuous,
            },
            "sources": [source_to_json(one) for one in evidence.sources],
            "operators": [_operator_to_json(one) for one in evidence.operators],
            "files": {
                kind.value: {"count": amount.count, "bytes": amount.bytes}
                for kind, amount in evidence.files.items()
            },
            "unreadable": [unreadable_to_json(one) for one in evidence.unreadable],
            "unreadable_more": evidence.unreadable_more,
            "settings": dict(redact.settings(evidence.settings)),
            "ledgers": [_ledger_to_json(one) for one in evidence.ledgers],
            "lease": _lease_to_json(evidence.lease, held=evidence.driver_runs),
            "foreign": list(evidence.foreign),
            "nested": list(evidence.nested),
        }
    )


def fact_to_json(shown: Fact[T], value: Callable[[T], Json]) -> Json:
    """A fact; `value` makes JSON of what it holds."""
    match shown:
        case Known(value=held, read_from=read_from, inferred=inferred):
            known: dict[str, Json] = {
                "status": "known",
                "value": value(held),
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
            assert_never(shown)


def _facts_to_json(evidence: Evidence) -> Json:
    raw = {one.name: one.raw for one in evidence.sources}
    return {
        "checkpoint_location": fact_to_json(evidence.location, str),
        "query_id": fact_to_json(evidence.query_id, str),
        "source_offsets": fact_to_json(
            evidence.source_offsets, lambda held: {k: raw[k] for k in held}
        ),
        "sink": fact_to_json(evidence.sink, str),
        "output_mode": fact_to_json(evidence.output_mode, str),
        "stateful_operators": fact_to_json(evidence.stateful_operators, list),
        "state_store_provider": fact_to_json(evidence.state_store_provider, str),
        "spark_version": fact_to_json(evidence.spark_version, str),
        "restart_history": fact_to_json(
            evidence.restart_history, lambda held: [_start_to_json(one) for one in held]
        ),
    }


def source_to_json(shown: SourceEvidence) -> Json:
    """One source with what a batch took from it."""
    return {
        "name": shown.name,
        "batch": shown.batch,
        "after": shown.after,
        "kind": shown.kind,
        "or_kinds": list(shown.other_kinds),
        "description": shown.described,
        "same_as": None
        if shown.same_as is None
        else {"name": shown.same_as.name, "inferred": shown.same_as.inferred},
        "offset": shown.raw,
        "began": shown.began,
        "consumed": _consumed_to_json(shown.consumed),
        "files": list(shown.files),
        "files_more": shown.files_more,
        "log_offsets_unread": shown.log_offsets_unread,
        "read_from": list(shown.read_from),
    }


def unreadable_to_json(shown: UnreadableFile) -> Json:
    """A file that cannot be read."""
    return {"path": shown.path, "reason": shown.reason}


def _consumed_to_json(shown: ConsumedRange) -> Json:
    return {
        "unit": shown.unit,
        "total": _number_to_json(shown.total),
        "partitions": [
            {
                "partition": one.partition,
                "start": one.start,
                "end": one.end,
                "count": _number_to_json(one.count),
                "change": one.change.value,
            }
            for one in shown.partitions
        ],
    }


def _batch_to_json(shown: TimelineBatch) -> Json:
    return {
        "batch": shown.batch,
        "planned_at": words.format_iso_time(shown.planned_ms),
        "committed_at": words.format_iso_time(shown.committed_ms),
        "rows": _number_to_json(shown.rows),
        "records": _number_to_json(shown.records),
        "unit": shown.unit,
        "watermark_ms": _number_to_json(shown.watermark_ms),
        "standing": shown.standing.value,
    }


def _start_to_json(shown: Start) -> Json:
    return {
        "sign": shown.sign.value,
        "at": words.format_iso_time(shown.at_ms),
        "run_id": shown.run_id,
        "first_batch": shown.first_batch,
        "ended_at": words.format_iso_time(shown.ended_ms),
        "error": shown.error,
        "spark_version": shown.spark_version,
        "note": shown.note,
        "read_from": shown.read_from,
    }


def _operator_to_json(shown: OperatorEvidence) -> Json:
    return {
        "operator": shown.operator,
        "name": fact_to_json(shown.name, str),
        "partitions": shown.partitions,
        "left_over_partitions": shown.left_over,
        "rows": _number_to_json(shown.rows),
        "bytes": shown.bytes,
        "latest_version": shown.latest_version,
        "oldest_restorable_batch": shown.oldest_batch,
        "newest_restorable_batch": shown.newest_batch,
        "restorable_batches": (
            None if isinstance(shown.restorable, Unknown) else _spans_to_json(shown.restorable)
        ),
        "schema": {name: _families_to_json(one) for name, one in shown.schema.items()},
        "properties": shown.properties,
        "stores": [_store_to_json(one) for one in shown.stores],
        "stores_without_files": [
            {"partition": partition, "store": store} for partition, store in shown.absent
        ],
        "unlisted": [unreadable_to_json(one) for one in shown.unlisted],
    }


def _families_to_json(shown: Sequence[ColumnFamily]) -> Json:
    return [
        {
            "name": one.name,
            "key": [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in one.key],
            "value": [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in one.value],
        }
        for one in shown
    ]


def _store_to_json(shown: StoreEvidence) -> Json:
    return {
        "partition": shown.partition,
        "store": shown.store,
        "latest_version": shown.latest_version,
        "snapshot_versions": _spans_to_json(shown.snapshots),
        "restorable_versions": _spans_to_json(shown.restorable),
        "oldest_restorable_batch": shown.restorable[0].first - 1 if shown.restorable else None,
        "files": shown.files,
        "bytes": shown.bytes,
        "rows": _number_to_json(shown.rows),
    }


def _ledger_to_json(shown: LedgerEvidence) -> Json:
    batch: Mapping[str, Json] = (
        {"batch": None, "reason": shown.batch.reason}
        if isinstance(shown.batch, Absent | Unknown)
        else {"batch": shown.batch, "reason": ""}
    )
    return {"table": shown.table, "key": shown.key, "note": shown.note, **batch}


def _lease_to_json(shown: Lease | None, *, held: bool) -> Json:
    if shown is None:
        return None
    return {
        "job": shown.job,
        "epoch": shown.epoch,
        "host": shown.holder.host,
        "pid": shown.holder.pid,
        "heartbeat_at": words.format_iso_time(shown.heartbeat_ms),
        "held": held,
    }


def _spans_to_json(shown: Sequence[Span]) -> Json:
    return [[one.first, one.last] for one in shown]


def _number_to_json(shown: int | Unknown) -> int | None:
    return None if isinstance(shown, Unknown) else shown
