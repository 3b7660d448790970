"""Decoding is total, and what is encoded decodes to itself."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decode import file_source_log, offset_log
from holdfast.decode import lease as lease_format
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Holder, Lease
from holdfast.model.offsets import FileEntry, OffsetEntry, Unreadable

LINES = st.sampled_from(
    [b"v1", b"v2", b"v9", b"", b"-", b"{}", b"[]", b"1e999", b"NaN", b'"\\ud800"', b"\x00", b"\xff",
     b'{"logOffset":3}', b'a:{"logOffset":3}', b'{"conf":{"a":[1]}}', b'{"conf":3}',
     b'{"batchWatermarkMs":"x","conf":null}', b'{"path":"p","timestamp":1,"batchId":2}',
     b'{"path":"p","timestamp":true,"batchId":null}', b"9" * 5000, b"[" * 3000]
)  # fmt: skip
BYTES = st.binary() | st.lists(LINES | st.binary(max_size=8)).map(b"\n".join)
TEXT = st.text(st.characters(codec="utf-8"))


@given(BYTES)
def test_any_bytes_give_an_offset_entry_or_a_reason(data: bytes) -> None:
    found = offset_log.decode(data)
    assert isinstance(found, OffsetEntry | Unreadable)
    if isinstance(found, OffsetEntry):
        assert found.version in offset_log.KNOWN_VERSIONS
        assert all(isinstance(value, str) for value in found.settings.values())


@given(BYTES, st.booleans())
def test_any_bytes_give_file_entries_or_a_reason(data: bytes, whole: bool) -> None:  # noqa: FBT001
    found = file_source_log.decode(data, whole=whole)
    assert isinstance(found, Unreadable) or all(isinstance(one, FileEntry) for one in found)


@given(BYTES)
def test_any_bytes_give_a_lease_or_a_reason(data: bytes) -> None:
    assert isinstance(lease_format.decode(data), Lease | Unreadable)


LEASES = st.builds(
    Lease,
    job=TEXT.map(JobName),
    epoch=st.integers(1).map(Epoch),
    holder=st.builds(Holder, host=TEXT, pid=st.integers(), process=TEXT),
    since_ms=st.integers(),
    heartbeat_ms=st.integers(),
    ttl_ms=st.integers(),
    released=st.booleans(),
)


@given(LEASES)
def test_a_lease_decodes_to_itself(lease: Lease) -> None:
    assert lease_format.decode(lease_format.encode(lease)) == lease


@given(LEASES, st.data())
def test_a_lease_that_is_cut_is_unreadable(lease: Lease, data: st.DataObject) -> None:
    whole = lease_format.encode(lease)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert isinstance(lease_format.decode(whole[:cut]), Unreadable)
