"""The offset log and the sources' own logs -> a batch with its range and its digest."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import hashlib
import json
from pathlib import Path

import pytest

from holdfast.errors import OffsetsUnreadable
from holdfast.model.batch import Batch, Writer
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.run.query.batch import OffsetReader
from holdfast.storage import Folder, open_store

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
LIFE = Writer(job=JobName("j"), generation=Generation(1), epoch=Epoch(1), location="/base/j")


class Tree:
    """A checkpoint in the making."""

    def __init__(self, base: Path) -> None:
        self.store: Folder = open_store(str(base))

    def offsets(self, batch: int, *sources: object, version: int = 1) -> None:
        lines = [s if isinstance(s, str) else json.dumps(s) for s in sources]
        text = "\n".join([f"v{version}", METADATA, *lines])
        self.store.write(f"j/offsets/{batch}", text.encode())

    def taken(self, log_offset: int, *paths: str, source: str = "0") -> None:
        self.logged(f"{source}/{log_offset}", [(path, log_offset) for path in paths])

    def logged(self, name: str, files: list[tuple[str, int]]) -> None:
        lines = [json.dumps({"path": p, "timestamp": 1, "batchId": k}) for p, k in files]
        self.store.write(f"j/sources/{name}", "\n".join(["v1", *lines]).encode())

    def batch(self, number: int) -> Batch:
        return OffsetReader(self.store, "j", LIFE).batch(BatchId(number))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def digest(*sources: object) -> Digest:
    text = json.dumps(sources, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return Digest(hashlib.sha256(text.encode()).hexdigest())


def test_a_batch_of_files_is_its_files(tree: Tree) -> None:
    tree.taken(0, "a", "b")
    tree.taken(1, "ü c")
    tree.offsets(0, {"logOffset": 0})
    tree.offsets(1, {"logOffset": 1})
    assert tree.batch(1) == Batch(
        life=LIFE,
        id=BatchId(1),
        digest=digest(["0", [["ü c", 1]]]),
        offsets=[{"source": "0", "start": {"logOffset": 0}, "end": {"logOffset": 1}}],
        expected_rows=Unknown(reason="the offsets of source 0 do not count rows"),
    )
    assert tree.batch(0).digest == digest(["0", [["a", 1], ["b", 1]]])


def test_several_log_offsets_make_one_batch(tree: Tree) -> None:
    """As after a rewind, when everything later comes as one batch."""
    for offset, name in enumerate("abcd"):
        tree.taken(offset, name)
    tree.offsets(0, {"logOffset": 0})
    tree.offsets(1, {"logOffset": 3})
    assert tree.batch(1).digest == digest(["0", [["b", 1], ["c", 1], ["d", 1]]])


def test_a_compact_entry_gives_only_its_own_files(tree: Tree) -> None:
    tree.offsets(8, {"logOffset": 8})
    tree.offsets(9, {"logOffset": 9})
    tree.logged("0/9.compact", [(f"f{k}", k) for k in range(10)] + [("g9", 9)])
    assert tree.batch(9).digest == digest(["0", [["f9", 1], ["g9", 1]]])


@pytest.mark.parametrize("own", [1, 400, 1500])
def test_a_long_compact_entry_is_read_from_its_end(tree: Tree, own: int) -> None:
    """Longer than one reading, with few or many files of its own."""
    earlier = [(f"earlier/{'x' * 60}/{n}", n % 9) for n in range(3000)]
    mine = [(f"mine/{'é' * 60}/{n}", 9) for n in range(own)]
    tree.logged("0/9.compact", [*sorted(earlier, key=lambda e: e[1]), *mine])
    tree.offsets(8, {"logOffset": 8})
    tree.offsets(9, {"logOffset": 9})
    assert tree.batch(9).digest == digest(["0", [[path, 1] for path, _ in mine]])


def test_a_compact_entry_of_nothing_but_its_own_files(tree: Tree) -> None:
    tree.logged("0/0.compact", [(f"{'y' * 70}{n}", 0) for n in range(3000)])
    tree.offsets(0, {"logOffset": 0})
    assert tree.batch(0).digest == digest(["0", [[f"{'y' * 70}{n}", 1] for n in range(3000)]])


def test_files_whose_own_entry_was_cleaned_are_found_in_the_next_compact_one(tree: Tree) -> None:
    """Spark deletes plain entries below a compact one; a rewound batch may still need them."""
    tree.logged("0/9.compact", [(f"f{k}", k) for k in range(10)])
    tree.taken(10, "f10")
    tree.offsets(6, {"logOffset": 6})
    tree.offsets(7, {"logOffset": 10})
    assert tree.batch(7).digest == digest(["0", [[f"f{k}", 1] for k in range(7, 11)]])


def test_a_batch_of_kafka_is_its_offsets_and_counts_its_rows(tree: Tree) -> None:
    start = {"t": {"0": 5, "1": 7}}
    end = {"t": {"0": 9, "1": 7, "2": 3}, "u": {"0": 1}}
    tree.offsets(3, start)
    tree.offsets(4, end)
    assert tree.batch(4) == Batch(
        life=LIFE,
        id=BatchId(4),
        digest=digest(["0", start, end]),
        offsets=[{"source": "0", "start": start, "end": end}],
        expected_rows=4 + 0 + 3 + 1,
    )


def test_a_first_batch_of_kafka_begins_where_its_source_says(tree: Tree) -> None:
    end = {"t": {"0": 150}}
    tree.offsets(0, end)
    assert tree.batch(0).digest == digest(["0", None, end])
    found = []
    for begun in (0, 100):
        tree.store.write("j/sources/0/0", b'\0v1\n{"t":{"0":%d}}' % begun)
        found.append(tree.batch(0))
        assert found[-1].digest == digest(["0", {"t": {"0": begun}}, end])
        assert found[-1].expected_rows == 150 - begun
    assert found[0].digest != found[1].digest


def test_a_source_that_comes_later_begins_where_it_says(tree: Tree) -> None:
    tree.store.write("j/sources/1/0", b'\0v1\n{"u":{"0":3}}')
    tree.offsets(0, {"t": {"0": 5}})
    tree.offsets(1, {"t": {"0": 5}}, {"u": {"0": 4}})
    assert tree.batch(1).digest == digest(
        ["0", {"t": {"0": 5}}, {"t": {"0": 5}}], ["1", {"u": {"0": 3}}, {"u": {"0": 4}}]
    )


@pytest.mark.parametrize("begun", [b"", b"v7\n{}", b"\xff", b'\0v1\n{"u":{"0":3}}'])
def test_where_a_source_began_cannot_be_told(tree: Tree, begun: bytes) -> None:
    tree.store.write("j/sources/0/0", begun)
    tree.offsets(0, {"t": {"0": 5}})
    assert tree.batch(0).digest == digest(["0", None, {"t": {"0": 5}}])


def test_kafka_offsets_that_go_down_promise_no_rows(tree: Tree) -> None:
    tree.offsets(0, {"t": {"0": 5}})
    tree.offsets(1, {"t": {"0": 2}})
    assert tree.batch(1).expected_rows == 0


@pytest.mark.parametrize("end", [{}, 41, {"reservoirVersion": 3, "index": -1}, {"t": {"0": "x"}}])
def test_offsets_that_count_no_rows(tree: Tree, end: object) -> None:
    tree.offsets(0, end)
    assert isinstance(tree.batch(0).expected_rows, Unknown)


def test_several_sources_one_of_them_without_an_offset(tree: Tree) -> None:
    tree.taken(0, "a", source="1")
    tree.offsets(0, {"t": {"0": 1}}, "-")
    tree.offsets(1, {"t": {"0": 1}}, {"logOffset": 0})
    assert tree.batch(0).digest == digest(["0", None, {"t": {"0": 1}}], ["1", None, None])
    assert tree.batch(1).digest == digest(
        ["0", {"t": {"0": 1}}, {"t": {"0": 1}}], ["1", [["a", 1]]]
    )
    assert tree.batch(1).expected_rows == Unknown(
        reason="the offsets of source 1 do not count rows"
    )


def test_a_source_that_is_used_twice_has_one_log(tree: Tree) -> None:
    tree.offsets(0, {"logOffset": 0}, {"logOffset": 0})
    tree.taken(0, "a")
    assert tree.batch(0).digest == digest(["0", [["a", 1]]], ["1", [["a", 1]]])


@pytest.mark.parametrize("other", [None, {"orders": {"0": 5}}], ids=["alone", "beside Kafka"])
def test_a_source_that_is_used_twice_beside_another(tree: Tree, other: object) -> None:
    more = [other] if other else []
    tree.offsets(0, {"logOffset": 0}, {"logOffset": 0}, {"logOffset": 1}, *more)
    tree.taken(0, "a")
    tree.taken(0, "b", source="1")
    tree.taken(1, "c", source="1")
    if other:
        tree.store.write("j/sources/2/0", b'\0v1\n{"orders":{"0":0}}')
    files = [["0", [["a", 1]]], ["1", [["a", 1]]], ["2", [["b", 1], ["c", 1]]]]
    begun = {"orders": {"0": 0}}
    assert tree.batch(0).digest == digest(*files, *(["3", begun, one] for one in more))


def test_two_sources_at_one_place_in_their_logs_are_two(tree: Tree) -> None:
    tree.offsets(0, {"logOffset": 0}, {"logOffset": 0}, {"reservoirVersion": 1})
    tree.taken(0, "a")
    tree.taken(0, "b", source="1")
    assert tree.batch(0).digest == digest(
        ["0", [["a", 1]]], ["1", [["b", 1]]], ["2", None, {"reservoirVersion": 1}]
    )


def test_lines_whose_source_cannot_be_told_are_refused(tree: Tree) -> None:
    tree.offsets(0, {"logOffset": 0}, {"logOffset": 0}, {"logOffset": 0})
    tree.taken(0, "a")
    tree.taken(0, "b", source="1")
    with pytest.raises(OffsetsUnreadable, match=r"sources/2/0\.compact"):
        tree.batch(0)


def test_named_sources(tree: Tree) -> None:
    tree.taken(0, "a", source="landing")
    tree.offsets(0, 'landing:{"logOffset":0}', version=2)
    assert tree.batch(0).digest == digest(["landing", [["a", 1]]])


def test_a_batch_without_anything_new(tree: Tree) -> None:
    tree.taken(0, "a")
    tree.offsets(0, {"logOffset": 0})
    tree.offsets(1, {"logOffset": 0})
    assert tree.batch(1).digest == digest(["0", {"logOffset": 0}, {"logOffset": 0}])


def test_the_entry_before_is_remembered(tree: Tree) -> None:
    """Spark may clean it away while the stream runs."""
    tree.offsets(0, {"t": {"0": 1}})
    tree.offsets(1, {"t": {"0": 2}})
    reader = OffsetReader(tree.store, "j", LIFE)
    reader.batch(BatchId(0))
    tree.store.delete("j/offsets/0")
    assert reader.batch(BatchId(1)).digest == digest(["0", {"t": {"0": 1}}, {"t": {"0": 2}}])


def test_what_cannot_be_read_is_named(tree: Tree) -> None:
    with pytest.raises(OffsetsUnreadable, match=r"j/offsets/3`.*the file does not exist"):
        tree.batch(3)
    tree.offsets(3, {"logOffset": 3})
    with pytest.raises(OffsetsUnreadable, match=r"j/offsets/2`.*the file does not exist"):
        tree.batch(3)
    tree.store.write("j/offsets/2", b"v1")
    with pytest.raises(OffsetsUnreadable, match=r"j/offsets/2`.*ends after"):
        tree.batch(3)
    tree.offsets(2, {"logOffset": 2})
    with pytest.raises(OffsetsUnreadable, match=r"j/sources/0/3.*the file does not exist"):
        tree.batch(3)
    tree.store.write("j/sources/0/3", b"v1\n{torn")
    with pytest.raises(OffsetsUnreadable, match=r"j/sources/0/3`.*is not JSON"):
        tree.batch(3)
