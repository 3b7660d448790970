"""`.holdfast/<job>/lease/<epoch>.json` <-> Lease.

{"epoch":3,"heartbeat_ms":…,"host":"…","job":"…","pid":1,"process":"…","released":false,
 "since_ms":…,"token":"…","ttl_ms":30000}
"""

from collections.abc import Mapping

from holdfast.model import json
from holdfast.model.fact import Unreadable
from holdfast.model.ids import Epoch, JobName
from holdfast.model.json import Json
from holdfast.model.lease import Holder, Lease


def encode(lease: Lease) -> bytes:
    """Return the bytes of a lease."""
    return json.to_canonical(
        {
            "job": lease.job,
            "epoch": lease.epoch,
            "host": lease.holder.host,
            "pid": lease.holder.pid,
            "process": lease.holder.process,
            "since_ms": lease.since_ms,
            "heartbeat_ms": lease.heartbeat_ms,
            "ttl_ms": lease.ttl_ms,
            "released": lease.released,
            "token": lease.token,
        }
    ).encode()


def decode(data: bytes) -> Lease | Unreadable:
    """Return the lease, or why it cannot be read."""
    try:
        value = json.parse(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return Unreadable(reason="not JSON")
    if not isinstance(value, Mapping):
        return Unreadable(reason="not a JSON object")
    try:
        return _decode_lease(value)
    except _FieldUnusable as absent:
        return Unreadable(reason=f"no usable `{absent}`")


class _FieldUnusable(Exception):
    """A field is missing or has the wrong type."""


def _decode_lease(value: Mapping[str, Json]) -> Lease:
    return Lease(
        job=JobName(_read_text(value, "job")),
        epoch=Epoch(_read_number(value, "epoch")),
        holder=Holder(
            host=_read_text(value, "host"),
            pid=_read_number(value, "pid"),
            process=_read_text(value, "process"),
        ),
        since_ms=_read_number(value, "since_ms"),
        heartbeat_ms=_read_number(value, "heartbeat_ms"),
        ttl_ms=_read_number(value, "ttl_ms"),
        released=value.get("released") is True,
        token=_read_text(value, "token") if "token" in value else "",
    )


def _read_text(value: Mapping[str, Json], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise _FieldUnusable(key)
    return text


def _read_number(value: Mapping[str, Json], key: str) -> int:
    number = value.get(key)
    if not isinstance(number, int) or isinstance(number, bool):
        raise _FieldUnusable(key)
    return number
