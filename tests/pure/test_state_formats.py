"""State schemas and RocksDB's zips: as Spark writes them, and damaged."""

from dataclasses import replace

import pytest
from tests import formats

from holdfast.decode import rocksdb_zip, state_schema
from holdfast.model.checkpoint import (
    ColumnFamily,
    RocksDbFile,
    RocksDbSnapshot,
    StateColumn,
    StateSchema,
)
from holdfast.model.fact import Unreadable

KEY = (StateColumn(name="k", type="string", nullable=True),)
VALUE = (StateColumn(name="n", type="bigint", nullable=False),)
# What Spark 4.1 wrote for `groupBy("value").count()`, byte for byte.
REAL = (
    b"\0\2v2\0\0\0\1\0\x5b"
    b'{"type":"struct","fields":[{"name":"value","type":"string","nullable":true,"metadata":{}}]}'
    b"\0\0\0\1\0\x5a"
    b'{"type":"struct","fields":[{"name":"count","type":"long","nullable":false,"metadata":{}}]}'
)


def family(name: str, user_key: tuple[StateColumn, ...] = (), *, encoded: bool) -> ColumnFamily:
    encoder = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"} if encoded else {}
    return ColumnFamily(
        name=name,
        key_schema_id=0,
        key=KEY,
        value_schema_id=0,
        value=VALUE,
        key_encoder=encoder,
        user_key=user_key,
    )


def test_a_schema_that_spark_wrote() -> None:
    found = state_schema.decode(REAL)
    assert isinstance(found, StateSchema)
    assert [column.name for column in found.families[0].key] == ["value"]
    assert [column.name for column in found.families[0].value] == ["count"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_schema_of_one_family(version: int) -> None:
    write = formats.utf if version == 1 else formats.chunks
    data = formats.utf(f"v{version}") + write(formats.KEY) + write(formats.VALUE)
    assert state_schema.decode(data) == StateSchema(
        version=version, families=(family("default", encoded=False),)
    )


@pytest.mark.parametrize("with_ids", [True, False], ids=["released", "before 4.0"])
def test_a_schema_of_column_families(with_ids: bool) -> None:  # noqa: FBT001
    data = formats.schema_3(
        ("counts", formats.KEY, formats.VALUE, "{    }"),
        ("$ttl_😀\0", formats.KEY, formats.VALUE, formats.KEY),
        with_ids=with_ids,
    )
    assert state_schema.decode(data) == StateSchema(
        version=3,
        families=(
            family("counts", encoded=True),
            family("$ttl_😀\0", KEY, encoded=True),
        ),
    )


COLLATED = '"metadata":{"__COLLATIONS":{"c":"icu.UNICODE_CI","c.element":"spark.UTF8_LCASE"}}'
TYPES = {
    "decimal(10,2)": "decimal(10,2)",
    "integer": "int",
    '{"type":"array","elementType":"short","containsNull":true}': "array<smallint>",
    '{"type":"map","keyType":"string","valueType":"byte","valueContainsNull":true}': (
        "map<string,tinyint>"
    ),
    '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"b","type":"date"}]}': (
        "struct<a:bigint,b:date>"
    ),
    '{"type":"udt","class":"x","sqlType":"double"}': "double",
    "null": "void",
    "string": "string collate UNICODE_CI",
    '{"type":"array","elementType":"string"}': "array<string collate UTF8_LCASE>",
    '{"type":"struct","fields":[{"name":"c","type":"string"}]}': "struct<c:string>",
}


@pytest.mark.parametrize(("written", "shown"), TYPES.items(), ids=TYPES.values())
def test_a_type_is_shown_as_spark_shows_it(written: str, shown: str) -> None:
    kind = written if written.startswith("{") else f'"{written}"'
    schema = f'{{"type":"struct","fields":[{{"name":"c","type":{kind},{COLLATED}}}]}}'
    found = state_schema.decode(formats.utf("v1") + formats.utf(schema) * 2)
    assert isinstance(found, StateSchema)
    assert found.families[0].key[0].type == shown


def test_a_long_schema_comes_in_chunks() -> None:
    name = "é" * 40_000
    schema = formats.struct_type((name, "long", True))
    whole = formats.utf("v2") + formats.chunks(schema, 1000) + formats.chunks(formats.VALUE)
    found = state_schema.decode(whole)
    assert isinstance(found, StateSchema)
    assert found.families[0].key[0].name == name


DEEP = '{"type":"array","elementType":' * 150 + '"long"' + "}" * 150
DAMAGED = {
    "nothing": (b"", "cut short"),
    "another version": (formats.utf("v9"), "version 9"),
    "no version": (formats.utf("x"), "first line"),
    "cut in the middle": (REAL[: len(REAL) // 2], "cut short"),
    "no JSON": (formats.utf("v1") + formats.utf("{") * 2, "is not JSON"),
    "no struct": (formats.utf("v1") + formats.utf('"long"') * 2, "no struct type"),
    "a column without a name": (formats.utf("v1") + formats.utf('{"fields":[{}]}') * 2, "no name"),
    "negative chunks": (formats.utf("v2") + b"\xff\xff\xff\xff", "-1 chunks"),
    "negative families": (formats.utf("v3") + b"\xff\xff\xff\xff", "-1 column families"),
    "not modified UTF-8": (b"\0\2\xff\xff", "no modified UTF-8"),
    "an endless type": (
        formats.utf("v1") + formats.utf(f'{{"fields":[{{"name":"a","type":{DEEP}}}]}}') * 2,
        "nested deeper",
    ),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_schema_says_why(data: bytes, reason: str) -> None:
    found = state_schema.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


SNAPSHOT = RocksDbSnapshot(
    version=1,
    keys=5,
    internal_keys=1,
    sst_files=(
        RocksDbFile(local_name="00007.sst", stored_name=f"00007-{formats.RUN}.sst", bytes=912),
    ),
    log_files=(),
    column_families={"default": 0, "counts": 1},
)
INNER = formats.logged(1, formats.SNAPSHOT)


def test_a_snapshot() -> None:
    for example in formats.FORMATS["RocksDB zip"].examples:
        assert rocksdb_zip.decode(example) == SNAPSHOT
    assert rocksdb_zip.decode_metadata(INNER) == SNAPSHOT
    second = rocksdb_zip.decode_metadata(formats.logged(2, formats.SNAPSHOT))
    assert second == replace(SNAPSHOT, version=2)


def test_a_zip_with_a_comment_at_its_end() -> None:
    whole = formats.zipped({"metadata": INNER})
    assert rocksdb_zip.decode(whole[:-2] + b"\5\0hello") == SNAPSHOT


ZIP = formats.zipped({"CURRENT": b"x", "metadata": INNER})
DAMAGED_ZIPS = {
    "nothing": (b"", "no zip"),
    "cut short": (ZIP[:-30], "no zip"),
    "without its file": (formats.zipped({"CURRENT": b"x"}), "holds no `metadata`"),
    "more than any": (
        formats.zipped({"metadata": b"v1\n[" + b"[]," * (4 << 20)}),
        "larger than any real one",
    ),
    "another version": (formats.zipped({"metadata": b"v3\n{}"}), "version 3, expected 1 or 2"),
    "no keys": (formats.zipped({"metadata": b"v1\n{}"}), "no number of keys"),
    "front lost": (ZIP[10:], "outside of it"),
    "bytes flipped": (ZIP.replace(ZIP[90:110], b"\xaa" * 20), "metadata"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED_ZIPS.values(), ids=DAMAGED_ZIPS)
def test_a_damaged_zip_says_why(data: bytes, reason: str) -> None:
    found = rocksdb_zip.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason
