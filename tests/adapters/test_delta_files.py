"""Rows -> files of a Delta table: what was written is read back, also from awkward partitions."""

from collections.abc import Callable, Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.adapters.delta_driving import Driver

from holdfast.errors import RowsMiscounted
from holdfast.sinks.delta import parquet, partitions
from holdfast.sinks.delta.layout import Layout, read_layout
from holdfast.sinks.delta.parquet import AddedFile, WrittenFile
from holdfast.storage import open_store

AWKWARD = [
    "plain", "two words", "a/b", "a%2Fb", "100%", "k=v", "a#b?c", "é", "日本 🚀", "it's", 'say "x"',
    "back\\slash", "[x]{y}^z*", "a:b", ".", "..", "tab\tnew\nline", "~", "+", "__x__",
]  # fmt: skip


def committed(path: Path, rows: pa.Table, by: list[str], files: list[AddedFile]) -> pa.Table:
    """The rows as a reader sees them, after a commit that names the files."""
    deltalake.DeltaTable.create(path, rows.schema, partition_by=by)
    log = Driver(path).table.log
    assert log.commit(log.head(), Driver(path).batch(0), files)
    names = ", ".join(f'"{name}"' for name in rows.column_names)
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return pa.table(query.execute(f'SELECT {names} FROM t ORDER BY "n"').read_all())


def by_driver(path: Path, rows: pa.Table, by: tuple[str, ...]) -> list[AddedFile]:
    """Write rows whose partition values are texts already."""
    texts = rows.select(list(by)) if by else pa.table({})
    return parquet.write_by_driver(open_store(str(path)), "holdfast-1-0-ab", rows, texts, Layout())


def test_rows_without_partitions(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2]), "t": pa.array(["a", None])})
    files = by_driver(tmp_path, rows, ())
    assert [(file.path, file.partition_values) for file in files] == [
        ("holdfast-1-0-ab/part-00000.parquet", {})
    ]
    assert files[0].size == (tmp_path / files[0].path).stat().st_size
    assert sum(file.rows for file in files) == 2
    assert committed(tmp_path, rows, [], files).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("by", [(), ("t",)])
def test_no_rows_are_no_files(tmp_path: Path, by: tuple[str, ...]) -> None:
    rows = pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    assert by_driver(tmp_path, rows, by) == []


def test_awkward_partitions_by_the_driver(tmp_path: Path) -> None:
    values = [*AWKWARD, None, "plain"]
    rows = pa.table({"n": pa.array(range(len(values))), "p": pa.array(values)})
    files = by_driver(tmp_path, rows, ("p",))
    assert len(files) == len(AWKWARD) + 1
    assert committed(tmp_path, rows, ["p"], files).to_pylist() == rows.to_pylist()


def test_partition_texts_of_collected_rows() -> None:
    """Spark casts all but instants, which are spelled in UTC whatever zone the column names."""
    instants = pa.array([1_500_000, -1, None], pa.timestamp("us", "America/New_York"))
    collected = pa.table(
        {
            "n": [1, 2, 3],
            "at": instants,
            "p": ["", "x", partitions.NULL],
            "__holdfast_partition_0": ["1969-12-31 19:00:01.5", "…", None],
            "__holdfast_partition_1": ["", "x", partitions.NULL],
        }
    )
    rows, texts = partitions.take_texts(collected, ("at", "p"))
    assert rows.column_names == ["n", "at", "p"]
    assert texts.to_pylist() == [
        {"at": "1970-01-01T00:00:01.500000Z", "p": None},
        {"at": "1969-12-31T23:59:59.999999Z", "p": "x"},
        {"at": None, "p": None},
    ]


def written(path: Path, rows: int = 10) -> list[WrittenFile]:
    """Two files as Delta's writer leaves them, and what it says of them."""
    path.mkdir(exist_ok=True)
    found = []
    for name in ("_day=1/a.parquet", "_day=2/b.parquet"):
        (path / name).parent.mkdir()
        pq.write_table(pa.table({"n": range(rows)}), path / name)
        size = (path / name).stat().st_size
        found.append(WrittenFile(path=name, size=size, partition_values={"_day": name[5]}))
    return found


def test_files_with_all_rows_pass(tmp_path: Path) -> None:
    files = parquet.read_back(open_store(str(tmp_path)), "t", written(tmp_path), Layout())
    parquet.require_rows("t", files, 20)
    assert [file.partition_values for file in files] == [{"_day": "1"}, {"_day": "2"}]


def test_a_file_without_rows_is_not_committed(tmp_path: Path) -> None:
    assert parquet.read_back(open_store(str(tmp_path)), "t", written(tmp_path, 0), Layout()) == []


@pytest.mark.parametrize("produced", [19, 21])
def test_fewer_or_more_rows_than_the_plan_are_refused(tmp_path: Path, produced: int) -> None:
    files = parquet.read_back(open_store(str(tmp_path)), "t", written(tmp_path), Layout())
    with pytest.raises(RowsMiscounted, match=f"produced {produced} rows, its files hold 20"):
        parquet.require_rows("t", files, produced)


# what can happen to a file between its writer and the commit
LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda file: file.unlink(),
    "emptied": lambda file: file.write_bytes(b""),
    "cut at the end": lambda file: file.write_bytes(file.read_bytes()[:-10]),
    "cut at the beginning": lambda file: file.write_bytes(file.read_bytes()[10:]),
    "replaced": lambda file: pq.write_table(pa.table({"n": [1]}), file),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_lost_file_is_refused(tmp_path: Path, lose: Callable[[Path], object]) -> None:
    files = written(tmp_path)
    lose(tmp_path / files[1].path)
    with pytest.raises(RowsMiscounted, match=r"b\.parquet"):
        parquet.read_back(open_store(str(tmp_path)), "t", files, Layout())


@pytest.mark.parametrize(
    ("properties", "by"),
    [
        ({}, ()),
        ({"delta.dataSkippingStatsColumns": "`a.b`"}, ()),
        ({"delta.dataSkippingStatsColumns": "a"}, ()),
        ({"delta.dataSkippingNumIndexedCols": "1"}, ()),
        ({}, ("a.b",)),
    ],
)
def test_a_dotted_path_of_two_columns_has_no_statistics(
    tmp_path: Path, properties: Mapping[str, str], by: tuple[str, ...]
) -> None:
    """A Parquet footer has the path only: readers would skip files by the wrong column."""
    columns = pa.schema(
        [("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())])), ("c", pa.int64())]
    )
    table = deltalake.DeltaTable.create(
        str(tmp_path), columns, partition_by=list(by), configuration=dict(properties)
    )
    assert "a.b" not in read_layout(table, "snappy").indexed
