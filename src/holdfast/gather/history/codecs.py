"""A compressed event log -> its text, as a stream.

    zstd      Zstandard's own frames, one after the other
    lz4       from lz4-java: `LZ4Block`, a token, two little-endian lengths, a checksum, the block
    snappy    from snappy-java: a header of 16 bytes that starts with 0x82 `SNAPPY`, then blocks,
              each after its big-endian length
    lzf       from compress-lzf: blocks after `ZV`, 0 or 1, and big-endian lengths: that of the
              block and, if it is compressed, that of its text
    gzip      members, one after the other; not from Spark, but Databricks delivers such logs

Each format starts with its own bytes, which no event does. An application that is still running, or
was killed, leaves a file that ends in the middle of a block: the text before that is returned, and
the rest is dropped silently, as in Spark's own history server.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_STORED, _LZ4_COMPRESSED = 0x10, 0x20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = 16
_LZF_MAGIC = b"ZV"
_LZF_STORED, _LZF_COMPRESSED = 0, 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FRAMED = 31
_LARGEST_BLOCK = 64 << 20
_CHUNK = 1 << 20
_PIECE = 64 << 10


def decompress(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file in chunks; its first bytes decide how it is decompressed."""
    start = file.read(len(_LZ4_MAGIC))
    file.seek(0)
    readers: dict[bytes, Callable[[BinaryIO], Iterator[bytes]]] = {
        _ZSTD_MAGIC: _read_zstd,
        _LZ4_MAGIC: _read_lz4,
        _SNAPPY_MAGIC: _read_snappy,
        _LZF_MAGIC: _read_lzf,
        _GZIP_MAGIC: _read_gzip,
    }
    for magic, reader in readers.items():
        if start and start[: len(magic)] == magic[: len(start)]:
            return reader(file)
    return _read_plain(file)


def _read_plain(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _read_zstd(file: BinaryIO) -> Iterator[bytes]:
    import pyarrow as pa  # large, and only compressed logs need it

    with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
        length = _CHUNK
        while length:
            chunk = bytearray(_CHUNK)
            try:
                length = stream.readinto(chunk)
            except OSError:
                # The last frame is cut. Its text is in the chunk, but its length is unknown: the
                # rest of the chunk is zeros, which JSON does not contain.
                yield bytes(chunk.rstrip(b"\0"))
                return
            yield bytes(memoryview(chunk)[:length])


def _read_gzip(file: BinaryIO) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP_FRAMED)
    packed = file.read(_PIECE)
    while packed:
        try:
            yield inflater.decompress(packed, _CHUNK)
        except zlib.error:
            return
        packed = inflater.unconsumed_tail
        if inflater.eof:
            packed = inflater.unused_data
            inflater = zlib.decompressobj(_GZIP_FRAMED)
        packed = packed or file.read(_PIECE)
    yield inflater.flush()


def _read_lz4(file: BinaryIO) -> Iterator[bytes]:
    import pyarrow as pa  # large, and only compressed logs need it

    codec = pa.Codec("lz4_raw")
    while len(header := file.read(_LZ4_HEADER.size)) == _LZ4_HEADER.size:
        magic, token, packed, size, _ = _LZ4_HEADER.unpack(header)
        if magic != _LZ4_MAGIC or not 0 <= packed <= _LARGEST_BLOCK or size > _LARGEST_BLOCK:
            return
        block = file.read(packed)
        if len(block) < packed:
            return
        if token & 0xF0 == _LZ4_STORED:
            yield block
        elif size > 0:
            try:
                yield codec.decompress(block, decompressed_size=size).to_pybytes()
            except OSError:
                return


def _read_snappy(file: BinaryIO) -> Iterator[bytes]:
    import pyarrow as pa  # large, and only compressed logs need it

    codec = pa.Codec("snappy")
    if not file.read(_SNAPPY_HEADER).startswith(_SNAPPY_MAGIC):
        return
    while len(head := file.read(4)) == 4:  # noqa: PLR2004
        if head == _SNAPPY_MAGIC[:4]:
            file.read(_SNAPPY_HEADER - 4)  # a stream that was appended to
            continue
        length = int.from_bytes(head, "big")
        block = file.read(length) if length <= _LARGEST_BLOCK else b""
        if len(block) < length or not block:
            return
        try:
            size = _parse_snappy_size(block)
            yield codec.decompress(block, decompressed_size=size).to_pybytes()
        except (OSError, ValueError):
            return


def _parse_snappy_size(block: bytes) -> int:
    """Return the length that the first bytes of a block state."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004
            if size > _LARGEST_BLOCK:
                break
            return size
    raise ValueError("a snappy block has no length")


def _read_lzf(file: BinaryIO) -> Iterator[bytes]:
    while len(header := file.read(5)) == 5 and header.startswith(_LZF_MAGIC):  # noqa: PLR2004
        kind, length = header[2], int.from_bytes(header[3:], "big")
        size = file.read(2) if kind == _LZF_COMPRESSED else b""
        block = file.read(length)
        if len(block) < length or kind not in (_LZF_STORED, _LZF_COMPRESSED):
            return
        if kind == _LZF_STORED:
            yield block
            continue
        text = _expand_lzf_block(block)
        if len(text) != int.from_bytes(size, "big"):
            return
        yield text


def _expand_lzf_block(block: bytes) -> bytes:
    """Return a block with its repetitions expanded; a damaged block has the wrong length.

    A byte n below 32 is followed by n + 1 literal bytes. Any other byte has a length in its upper
    three bits, extended by one more byte if all three are set, and the distance to copy from.
    """
    text, at, end = bytearray(), 0, len(block)
    while at < end:
        control = block[at]
        at += 1
        if control < 32:  # noqa: PLR2004
            text += block[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        low = block[at : at + 2]
        if length == 7 and low:  # noqa: PLR2004
            length += low[0]
            at, low = at + 1, low[1:]
        at += 1
        start = len(text) - ((control & 0x1F) << 8) - (low[0] if low else 0) - 1
        if start < 0:
            return b""
        length += 2
        # The copy may overlap its result: a run of one letter has the distance 1.
        piece = bytes(text[start : start + length])
        text += (piece * (length // len(piece) + 1))[:length]
    return bytes(text)
