"""Event logs that end anywhere, in every framing: all that comes before the end is told."""

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast
from tests.formats import LISTENER
from tests.looking import evidence

from holdfast.gather.history import codecs
from holdfast.model.fact import Known

RUN_ID = "0b6ee2c4-3a55-4a3c-9d5c-0e4f3cf1a111"
IDS = {"id": files.QUERY_ID, "runId": RUN_ID, "name": None, "timestamp": "2026-01-01T00:00:00Z"}
EVENTS: Sequence[dict[str, object]] = (
    {"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"},
    {"Event": f"{LISTENER}QueryStartedEvent", **IDS},
    {"Event": "SparkListenerTaskEnd", "text": "é" * 150},
    {"Event": f"{LISTENER}QueryProgressEvent",
     "progress": {**IDS, "batchId": 1, "sources": [], "sink": {"description": "Sink[orders]"}}},
)  # fmt: skip
BLOCKS = [json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in EVENTS]


def zstd(blocks: Sequence[bytes]) -> list[bytes]:
    """A frame each."""
    return [pa.compress(block, codec="zstd", asbytes=True) for block in blocks]


def zstd_in_one_frame(blocks: Sequence[bytes]) -> list[bytes]:
    """A block each, in the one frame of an application that has flushed and not ended."""
    sink = pa.BufferOutputStream()
    ends = [0]
    stream = pa.CompressedOutputStream(sink, "zstd")
    for block in blocks:
        stream.write(block)
        stream.flush()
        ends.append(sink.tell())
    stream.close()
    whole = sink.getvalue().to_pybytes()
    return [whole[start:end] for start, end in pairwise(ends)]


def lz4(blocks: Sequence[bytes]) -> list[bytes]:
    """A block each; the second is stored as it is."""
    codec = pa.Codec("lz4_raw")
    packed = [codec.compress(block, asbytes=True) for block in blocks]
    tokens = [0x25] * len(blocks)
    packed[1], tokens[1] = blocks[1], 0x15
    header = struct.Struct("<8sBiii")
    return [
        header.pack(b"LZ4Block", token, len(one), len(block), 0) + one
        for one, token, block in zip(packed, tokens, blocks, strict=True)
    ]


def snappy(blocks: Sequence[bytes]) -> list[bytes]:
    """A block each; in front of the third a stream begins that was appended."""
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    packed = [pa.compress(block, codec="snappy", asbytes=True) for block in blocks]
    framed = [struct.pack(">i", len(one)) + one for one in packed]
    return [header + framed[0], framed[1], header + framed[2], *framed[3:]]


def lzf(blocks: Sequence[bytes]) -> list[bytes]:
    """A block each; the first is stored as it is, of the third the é are repetitions."""
    return [b"ZV\x00" + struct.pack(">H", len(blocks[0])) + blocks[0], *map(_lzf, blocks[1:])]


def _lzf(block: bytes) -> bytes:
    before, _, after = block.partition("é".encode() * 150)
    packed = _letters(before)
    if after:
        # 300 bytes: the two that stand there, and twice 149 more from two steps back.
        packed += _letters("é".encode()) + (bytes([0xE0, 140, 1]) * 2)
    packed += _letters(after)
    return b"ZV\x01" + struct.pack(">HH", len(packed), len(block)) + packed


def _letters(text: bytes) -> bytes:
    runs = [text[at : at + 32] for at in range(0, len(text), 32)]
    return b"".join(bytes([len(run) - 1]) + run for run in runs)


def gzipped(blocks: Sequence[bytes]) -> list[bytes]:
    """A member each, but for the first two, which are one that was flushed in between."""
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(blocks[0]) + packer.flush(zlib.Z_SYNC_FLUSH)
    second = packer.compress(blocks[1]) + packer.flush()
    return [first, second, *(gzip.compress(block) for block in blocks[2:])]


def plain(blocks: Sequence[bytes]) -> list[bytes]:
    """As they are."""
    return list(blocks)


Framing = Callable[[Sequence[bytes]], list[bytes]]
FRAMINGS = (plain, zstd, zstd_in_one_frame, lz4, snappy, lzf, gzipped)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_comes_before_a_cut_is_given_wherever_it_falls(framing: Framing) -> None:
    framed = framing(BLOCKS)
    whole, text = b"".join(framed), b"".join(BLOCKS)
    ends = list(accumulate(map(len, framed)))
    before = 0
    for cut in range(len(whole) + 1):
        given = b"".join(codecs.decompress(io.BytesIO(whole[:cut])))
        complete = sum(end <= cut for end in ends)
        assert text.startswith(given)
        assert len(given) >= max(before, sum(map(len, BLOCKS[:complete])))
        before = len(given)
    assert before == len(text)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_log_with_any_byte_changed_raises_nothing(framing: Framing) -> None:
    whole = b"".join(framing(BLOCKS))
    for at in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= change
            assert sum(map(len, codecs.decompress(io.BytesIO(damaged)))) < 1 << 27


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_long_log_that_is_cut_comes_in_bounded_pieces(framing: Framing) -> None:
    line = json.dumps({"Event": "SparkListenerTaskEnd", "x": "y" * 900}).encode() + b"\n"
    blocks = [line * 60] * 80
    given = list(codecs.decompress(io.BytesIO(b"".join(framing(blocks))[:-1])))
    assert max(map(len, given)) <= 1 << 20
    assert b"".join(blocks).startswith(b"".join(given))
    assert sum(map(len, given)) >= sum(map(len, blocks[:-1]))


@pytest.mark.parametrize("framing", FRAMINGS)
def test_an_event_log_of_an_application_that_still_runs(tmp_path: Path, framing: Framing) -> None:
    """Its name says nothing: the framing is told by what the file begins with."""
    location = files.write(tmp_path / "c")
    path = tmp_path / "app-1"
    framed = framing([*BLOCKS, *BLOCKS[2:3]])
    path.write_bytes(b"".join(framed[:-1]) + framed[-1][:-3])
    found = evidence(location, event_log=str(path))
    assert found.spark_version == Known(value="4.1.1", read_from=(str(path),))
    assert found.sink == Known(value="Sink[orders]", read_from=(str(path),))
    assert not found.unreadable


@pytest.mark.parametrize(
    "content",
    [b"PK\x03\x04" + bytes(range(256)) * 9, b'{"id":"x"}\n', b"no\nlog\n", gzip.compress(b"text")],
    ids=["bytes", "JSON", "text", "text in gzip"],
)
def test_a_file_without_an_event_is_no_event_log(tmp_path: Path, content: bytes) -> None:
    location = files.write(tmp_path / "c")
    path = tmp_path / "app-1.zstd"
    path.write_bytes(content)
    done = holdfast("inspect", str(location), "--event-log", str(path))
    assert done.returncode == 2
    assert done.stderr == (
        f"EVENT_LOG_UNREADABLE: cannot read an event log at `{path}`: none of its lines is "
        "an event, plain or compressed with zstd, lz4, snappy, lzf or gzip\n"
        "hint: name a file that Spark wrote into `spark.eventLog.dir`, or that folder\n"
    )
    folder = tmp_path / "logs"
    folder.mkdir()
    path.rename(folder / "other")
    (folder / "app-2").write_bytes(b"".join(BLOCKS))
    assert isinstance(evidence(location, event_log=str(folder)).sink, Known)


def test_a_log_in_which_nothing_is_written_yet_tells_of_no_query(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    for content in (b"", zstd(BLOCKS)[0][:9]):
        path = tmp_path / "app-1.zstd.inprogress"
        path.write_bytes(content)
        (unread,) = evidence(location, event_log=str(path)).unreadable
        assert unread.reason == "the event log has no streaming query"
