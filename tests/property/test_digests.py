"""The digest of a batch: the same for the same range, another for every other."""

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batch import Batch, Writer
from holdfast.model.ids import BatchId, Epoch, Generation, JobName
from holdfast.run.query.batch import OffsetReader
from holdfast.storage import open_store

Files = tuple[tuple[str, int], ...]
Offsets = dict[str, dict[str, int]]

OFFSETS: st.SearchStrategy[Offsets] = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["0", "1", "2"]), st.integers(0, 5), min_size=1),
    min_size=1,
)
FILES: st.SearchStrategy[Files] = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(1, 2)), min_size=1, max_size=3
).map(tuple)


def life(epoch: int) -> Writer:
    return Writer(
        job=JobName("j"), generation=Generation(0), epoch=Epoch(epoch), location="memory://j"
    )


def entry(*sources: object, timestamp: int = 0, reverse: bool = False) -> bytes:
    def text(source: object) -> str:
        ordered = isinstance(source, dict) and reverse
        return json.dumps(dict(reversed(source.items())) if ordered else source)  # type: ignore[attr-defined]

    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": timestamp, "conf": {}})
    return "\n".join(["v1", metadata, *map(text, sources)]).encode()


def kafka(
    start: Offsets, end: Offsets, *, epoch: int = 1, spelled_otherwise: bool = False
) -> Batch:
    store = open_store("memory://")
    stamp = 7 if spelled_otherwise else 0
    store.write("j/offsets/0", entry(start, timestamp=stamp, reverse=spelled_otherwise))
    store.write("j/offsets/1", entry(end, timestamp=stamp, reverse=spelled_otherwise))
    return OffsetReader(store, "j", life(epoch)).batch(BatchId(1))


def files(taken: Files, *, log_offset: int = 0) -> Batch:
    store = open_store("memory://")
    for offset in range(log_offset + 1):
        own = taken if offset == log_offset else ()
        lines = [
            json.dumps({"path": path, "timestamp": stamp, "batchId": offset}) for path, stamp in own
        ]
        store.write(f"j/sources/0/{offset}", "\n".join(["v1", *lines]).encode())
    store.write("j/offsets/0", entry({"logOffset": log_offset}))
    return OffsetReader(store, "j", life(1)).batch(BatchId(0))


@given(OFFSETS, OFFSETS)
def test_equal_ranges_have_equal_digests(start: Offsets, end: Offsets) -> None:
    """Whoever reads them, whenever the batch ran, and whatever the order of keys."""
    again = kafka(start, end, epoch=2, spelled_otherwise=True)
    assert kafka(start, end).digest == again.digest


@given(OFFSETS, OFFSETS, OFFSETS, OFFSETS)
def test_other_ranges_have_other_digests(a: Offsets, b: Offsets, c: Offsets, d: Offsets) -> None:
    assert (kafka(a, b).digest == kafka(c, d).digest) == ((a, b) == (c, d))


@given(FILES, FILES)
def test_other_files_have_other_digests(one: Files, other: Files) -> None:
    assert (files(one).digest == files(other).digest) == (one == other)


@given(FILES, st.integers(1, 4))
def test_the_files_count_and_not_the_number_they_are_logged_under(
    taken: Files, log_offset: int
) -> None:
    assert files(taken).digest == files(taken, log_offset=log_offset).digest
