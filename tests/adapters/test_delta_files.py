"""Rows -> files of a Delta table: what was written is read back, also from awkward partitions."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.adapters.delta_driving import Driver

from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.parquet import AddedFile
from holdfast.storage import open_store

AWKWARD = [
    "plain", "two words", "a/b", "a%2Fb", "100%", "k=v", "a#b?c", "é", "日本 🚀", "it's", 'say "x"',
    "back\\slash", "[x]{y}^z*", "a:b", ".", "..", "tab\tnew\nline", "~", "+", "__x__",
]  # fmt: skip
_ESCAPED = set("\"#%'*/:=?\\{[]^\x7f") | {chr(n) for n in range(32)}


def committed(path: Path, rows: pa.Table, by: list[str], files: list[AddedFile]) -> pa.Table:
    """The rows as a reader sees them, after a commit that names the files."""
    deltalake.DeltaTable.create(path, rows.schema, partition_by=by)
    log = Driver(path).table.log
    assert log.commit(log.head(), Driver(path).batch(0), files)
    names = ", ".join(f'"{name}"' for name in rows.column_names)
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return pa.table(query.execute(f'SELECT {names} FROM t ORDER BY "n"').read_all())


def by_driver(path: Path, rows: pa.Table, by: tuple[str, ...]) -> list[AddedFile]:
    return parquet.by_driver(open_store(str(path)), "holdfast-1-0-ab", rows, by)


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


def test_an_empty_text_as_a_partition_is_null_as_everywhere_in_delta(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1]), "p": pa.array([""])})
    files = by_driver(tmp_path, rows, ("p",))
    assert committed(tmp_path, rows, ["p"], files).to_pylist() == [{"n": 1, "p": None}]


def test_two_partition_columns(tmp_path: Path) -> None:
    keys = [(d, f) for d in (dt.date(2026, 1, 1), None) for f in (True, False, None)]
    rows = pa.table(
        {
            "day": pa.array([d for d, _ in keys], pa.date32()),
            "n": pa.array(range(len(keys))),
            "ok": pa.array([f for _, f in keys], pa.bool_()),
        }
    )
    files = by_driver(tmp_path, rows, ("ok", "day"))
    assert len(files) == 6
    assert committed(tmp_path, rows, ["ok", "day"], files).to_pylist() == rows.to_pylist()


KINDS = {
    "int": (pa.int32(), [1, -1, None]),
    "long": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "double": (pa.float64(), [1e20, -0.5, 1e-9, None]),
    "decimal": (pa.decimal128(20, 10), [Decimal("0E-10"), Decimal("1.5000000000"), None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "instant": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            dt.datetime(1969, 7, 20, 1, 2, 3, 4, tzinfo=dt.UTC),
        ],
    ),
    "local": (
        pa.timestamp("us"),
        [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 1)],  # noqa: DTZ001
    ),
}


@pytest.mark.parametrize(("kind", "values"), KINDS.values(), ids=KINDS)
def test_partitions_of_every_kind(tmp_path: Path, kind: pa.DataType, values: list[object]) -> None:
    rows = pa.table({"n": pa.array(range(len(values))), "p": pa.array(values, kind)})
    files = by_driver(tmp_path, rows, ("p",))
    assert committed(tmp_path, rows, ["p"], files).to_pylist() == rows.to_pylist()


def test_an_instant_is_spelled_as_the_protocol_says(tmp_path: Path) -> None:
    """`1970-01-01 00:00:00.123456` or ISO 8601 with a Z; Spark reads no other."""
    rows = pa.table({"n": [1], "p": pa.array([1_500_000], pa.timestamp("us", "UTC"))})
    (file,) = by_driver(tmp_path, rows, ("p",))
    assert file.partition_values["p"] in (
        "1970-01-01T00:00:01.500000Z",
        "1970-01-01 00:00:01.500000",
    )


def test_bytes_as_a_partition_are_not_spelled_as_python_spells_them(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1]), "p": pa.array([b"ab"], pa.binary())})
    (file,) = by_driver(tmp_path, rows, ("p",))
    assert file.partition_values == {"p": "ab"}


def test_not_a_number_as_a_partition_is_one_partition(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2]), "p": pa.array([math.nan, math.nan])})
    files = by_driver(tmp_path, rows, ("p",))
    assert sum(file.rows for file in files) == 2
    assert {str(file.partition_values["p"]).lower() for file in files} == {"nan"}


class Rows:
    """Rows on executors, as far as a Parquet writer sees them: folders spelled as Spark does."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._by: tuple[str, ...] = ()

    @property
    def write(self) -> "Rows":
        return self

    def mode(self, _: str) -> "Rows":
        return self

    def option(self, _: str, __: str) -> "Rows":
        return self

    def partitionBy(self, *by: str) -> "Rows":  # noqa: N802  Spark's own word
        self._by = by
        return self

    def parquet(self, url: str) -> None:
        root = Path(url.removeprefix("file://"))
        root.mkdir(parents=True)
        (root / "_temporary").mkdir()
        for number, row in enumerate(self._rows.to_pylist()):
            folder = root
            for name in self._by:
                folder /= f"{_escaped(name)}={_folder(row.pop(name))}"
            folder.mkdir(parents=True, exist_ok=True)
            kept = self._rows.schema.empty_table().drop_columns(list(self._by)).schema
            file = folder / f"part-{number:05d}-1234.c000.snappy.parquet"
            pq.write_table(pa.Table.from_pylist([row], schema=kept), file)
            file.with_name(f".{file.name}.crc").write_bytes(b"crc")


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def _folder(value: object) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else _escaped(str(value))


def test_awkward_partitions_by_the_executors(tmp_path: Path) -> None:
    values = [*AWKWARD, None]
    rows = pa.table({"n": pa.array(range(len(values))), "p%": pa.array(values)})
    store = open_store(str(tmp_path))
    files = parquet.by_executors(store, str(tmp_path), "holdfast-1-0-ab", Rows(rows), ("p%",))  # type: ignore[arg-type]
    assert sum(file.rows for file in files) == len(values)
    assert committed(tmp_path, rows, ["p%"], files).to_pylist() == rows.to_pylist()


def test_files_of_the_executors_without_partitions(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2]), "t": pa.array(["a", None])})
    store = open_store(str(tmp_path))
    files = parquet.by_executors(store, str(tmp_path), "holdfast-1-0-ab", Rows(rows), ())  # type: ignore[arg-type]
    assert [json.loads(file.stats)["minValues"] for file in files] == [{"n": 1, "t": "a"}, {"n": 2}]
    assert committed(tmp_path, rows, [], files).to_pylist() == rows.to_pylist()
