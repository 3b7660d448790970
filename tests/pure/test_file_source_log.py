"""The file source's log: plain entries, compact entries and the tail of one."""

import pytest

from holdfast.decode import file_source_log
from holdfast.model.fact import Unreadable
from holdfast.model.offsets import FileEntry

LINES = [
    f'{{"path":"file:///landing/{name}","timestamp":{1000 + offset},"batchId":{offset}}}'
    for offset, name in enumerate(["a.json", "b c.json", "d%20é.json"])
]
FILES = tuple(
    FileEntry(path=f"file:///landing/{name}", timestamp_ms=1000 + offset, log_offset=offset)
    for offset, name in enumerate(["a.json", "b c.json", "d%20é.json"])
)
COMPACT = "\n".join(["v1", *LINES]).encode()


def test_a_plain_entry() -> None:
    assert file_source_log.decode(f"v1\n{LINES[0]}".encode()) == FILES[:1]


def test_an_entry_without_files() -> None:
    assert file_source_log.decode(b"v1") == ()


def test_a_compact_entry_whole() -> None:
    assert file_source_log.decode(COMPACT) == FILES


def test_every_tail_of_a_compact_entry_has_the_last_files_whole() -> None:
    """Wherever the cut falls, also inside a character, only whole lines count."""
    starts = [COMPACT.index(line.encode()) for line in LINES]
    for cut in range(len(COMPACT)):
        expected = tuple(
            file for file, start in zip(FILES, starts, strict=True) if start - 1 >= cut
        )
        assert file_source_log.decode(COMPACT[cut:], whole=False) == expected, cut


DAMAGED = {
    "empty": (b"", "empty"),
    "another version": (b"v2\n", "version 2, expected 1"),
    "no version": (LINES[0].encode(), "first line"),
    "cut": (f"v1\n{LINES[0][:30]}".encode(), "is not JSON"),
    "a list": (b"v1\n[1]", "not a JSON object"),
    "no path": (b'v1\n{"timestamp":1,"batchId":1}', "no path, timestamp or batchId"),
    "a path that is a number": (b'v1\n{"path":1,"timestamp":1,"batchId":1}', "no path"),
    "not UTF-8": (b"v1\n\xff", "not UTF-8 at byte 3"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_says_why(data: bytes, reason: str) -> None:
    found = file_source_log.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason
