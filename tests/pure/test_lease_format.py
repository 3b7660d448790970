"""The lease's format and when a lease has run out."""

from dataclasses import replace

import pytest

from holdfast.decode import lease as lease_format
from holdfast.model.fact import Unreadable
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Holder, Lease

LEASE = Lease(
    job=JobName("ingest"),
    epoch=Epoch(3),
    holder=Holder(host="höst", pid=17, process="boot/pid:[1]/99"),
    since_ms=1_000,
    heartbeat_ms=2_000,
    ttl_ms=30_000,
    released=False,
    token="5eed",
)
TEXT = (
    '{"epoch":3,"heartbeat_ms":2000,"host":"höst","job":"ingest","pid":17,'
    '"process":"boot/pid:[1]/99","released":false,"since_ms":1000,"token":"5eed","ttl_ms":30000}'
)


def test_the_bytes_are_as_drawn() -> None:
    assert lease_format.encode(LEASE) == TEXT.encode()


def test_what_was_written_is_read() -> None:
    assert lease_format.decode(TEXT.encode()) == LEASE


def test_a_lease_of_a_version_without_tokens_is_read() -> None:
    old = TEXT.replace('"token":"5eed",', "")
    assert lease_format.decode(old.encode()) == replace(LEASE, token="")


def test_released_is_kept() -> None:
    released = replace(LEASE, released=True)
    assert lease_format.decode(lease_format.encode(released)) == released


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert lease_format.decode(b'{"new":1,' + TEXT.encode()[1:]) == LEASE


DAMAGED = {
    "empty": (b"", "not JSON"),
    "torn": (TEXT.encode()[:40], "not JSON"),
    "not UTF-8": (b"\xff", "not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "no job": (TEXT.replace('"job":"ingest",', "").encode(), "no usable `job`"),
    "an epoch in words": (TEXT.replace('"epoch":3', '"epoch":"3"').encode(), "no usable `epoch`"),
    "an epoch that is true": (
        TEXT.replace('"epoch":3', '"epoch":true').encode(),
        "no usable `epoch`",
    ),
    "a host of null": (TEXT.replace('"höst"', "null").encode(), "no usable `host`"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_says_why(data: bytes, reason: str) -> None:
    found = lease_format.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("now_ms", "released", "expired"),
    [
        (2_000, False, False),
        (32_000, False, False),
        (32_001, False, True),
        (2_000, True, True),
        (0, False, False),
    ],
)
def test_a_lease_runs_out_after_its_ttl(*, now_ms: int, released: bool, expired: bool) -> None:
    assert replace(LEASE, released=released).is_expired(now_ms) is expired
