"""State schema files -> StateSchema. They are binary, written with Java's DataOutputStream.

    state/<op>/0/[<store>/]_metadata/schema             versions 1 and 2
    state/<op>/_stateSchema/<store>/<batch>_<uuid>      version 3

    v1   utf("v1") utf(key) utf(value)                  utf: length in 2 bytes, modified UTF-8
    v2   utf("v2") json(key) json(value)                json: number of chunks in 4 bytes, utf each
    v3   utf("v3") number of families in 4 bytes, then for each
         utf(name) id(2 bytes) json(key) id(2 bytes) json(value) json(key encoder) json(user key)

Builds before the release of 4.0 wrote version 3 without the two ids, and their checkpoints are
still in use. A key, a value and a user key are Spark's JSON of a struct type; a missing user key is
`{    }`.
"""

import struct
from collections.abc import Mapping, Sequence

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.checkpoint import ColumnFamily, StateColumn, StateSchema
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json

KNOWN_VERSIONS = (1, 2, 3)
_DEEPEST = 100
_SIMPLE = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "null": "void",  # up to Spark 3.1
}
_COLLATIONS = "__COLLATIONS"


class _Malformed(Exception):
    """The bytes end too early or do not follow the format."""


def decode(data: bytes) -> StateSchema | Unreadable:
    """Return the schema, or why it cannot be read."""
    schema = _try_decode(data, with_ids=True)
    if isinstance(schema, Unreadable) and data[2:4] == b"v3":
        early = _try_decode(data, with_ids=False)
        return schema if isinstance(early, Unreadable) else early
    return schema


def _try_decode(data: bytes, *, with_ids: bool) -> StateSchema | Unreadable:
    reader = _Reader(data)
    try:
        version = log.read_version(reader.read_utf())
        if isinstance(version, Unreadable):
            return version
        if version not in KNOWN_VERSIONS:
            return Unreadable(reason=f"state schema version {version}, expected 1, 2 or 3")
        families = _read_families(reader, version, with_ids=with_ids)
        return StateSchema(version=version, families=families)
    except _Malformed as malformed:
        return Unreadable(reason=str(malformed))


class _Reader:
    """A reader that takes values from the front of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _Malformed(f"cut short: {len(self._data)} bytes, expected at least {end}")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def read_short(self) -> int:
        number: int = struct.unpack(">h", self._take(2))[0]
        return number

    def read_integer(self) -> int:
        number: int = struct.unpack(">i", self._take(4))[0]
        return number

    def read_utf(self) -> str:
        return _join_surrogates(self._read_units())

    def read_chunks(self) -> str:
        """Read a text in chunks; a surrogate pair may be split between two chunks."""
        count = self.read_integer()
        if count < 0:
            raise _Malformed(f"{count} chunks before byte {self._at}")
        parts: list[str] = []
        while len(parts) < count:
            parts.append(self._read_units())
        return _join_surrogates("".join(parts))

    def _read_units(self) -> str:
        """Read a text like Java: each half of a surrogate pair is a character."""
        length: int = struct.unpack(">H", self._take(2))[0]
        raw = self._take(length)
        try:
            return raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise _Malformed(f"no modified UTF-8 before byte {self._at}") from None


def _join_surrogates(units: str) -> str:
    """Join surrogate pairs into characters, and replace a single surrogate by U+FFFD."""
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read_families(reader: _Reader, version: int, *, with_ids: bool) -> tuple[ColumnFamily, ...]:
    if version == 1:
        return (_make_default_family(reader.read_utf(), reader.read_utf()),)
    if version == 2:  # noqa: PLR2004
        return (_make_default_family(reader.read_chunks(), reader.read_chunks()),)
    count = reader.read_integer()
    if count < 0:
        raise _Malformed(f"{count} column families")
    families: list[ColumnFamily] = []
    while len(families) < count:
        families.append(_read_family(reader, with_ids=with_ids))
    return tuple(families)


def _make_default_family(key: str, value: str) -> ColumnFamily:
    return ColumnFamily(
        name="default",
        key_schema_id=0,
        key=_parse_columns(key),
        value_schema_id=0,
        value=_parse_columns(value),
        key_encoder={},
        user_key=(),
    )


def _read_family(reader: _Reader, *, with_ids: bool) -> ColumnFamily:
    name = reader.read_utf()
    key_id, key = reader.read_short() if with_ids else 0, _parse_columns(reader.read_chunks())
    value_id, value = reader.read_short() if with_ids else 0, _parse_columns(reader.read_chunks())
    encoder, user_key = _parse_json(reader.read_chunks()), reader.read_chunks()
    return ColumnFamily(
        name=name,
        key_schema_id=key_id,
        key=key,
        value_schema_id=value_id,
        value=value,
        key_encoder=encoder,
        user_key=_parse_columns(user_key) if json.as_mapping(_parse_json(user_key)) else (),
    )


def _parse_json(text: str) -> Json:
    value = log.parse_json(text)
    if isinstance(value, Unreadable):
        raise _Malformed(value.reason)
    return value


def _parse_columns(text: str) -> tuple[StateColumn, ...]:
    fields = json.as_mapping(_parse_json(text)).get("fields")
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        raise _Malformed(f"`{log.shorten(text)}` is no struct type")
    return tuple(_parse_column(json.as_mapping(field)) for field in fields)


def _parse_column(field: Mapping[str, Json]) -> StateColumn:
    name = field.get("name")
    if not isinstance(name, str) or "type" not in field:
        raise _Malformed("a column has no name or no type")
    return StateColumn(
        name=name, type=_format_field_type(field, 1), nullable=field.get("nullable") is not False
    )


def _format_field_type(field: Mapping[str, Json], depth: int) -> str:
    """Return the type of a field; its metadata has the collations of texts in it, by path."""
    collations = json.as_mapping(json.as_mapping(field.get("metadata")).get(_COLLATIONS))
    return _format_type(field.get("type"), depth, collations, str(field.get("name")))


def _format_type(value: Json, depth: int, collations: Mapping[str, Json], path: str) -> str:
    """Return a type as Spark prints it; a type deeper than any real one is malformed."""
    if depth > _DEEPEST:
        raise _Malformed(f"a type is nested deeper than {_DEEPEST}")
    if isinstance(value, str):
        return _format_simple_type(value, collations.get(path))

    def inner(member: str, step: str) -> str:
        return _format_type(fields.get(member), depth + 1, collations, f"{path}.{step}")

    fields = json.as_mapping(value)
    match fields.get("type"):
        case "array":
            return f"array<{inner('elementType', 'element')}>"
        case "map":
            return f"map<{inner('keyType', 'key')},{inner('valueType', 'value')}>"
        case "struct":
            return f"struct<{','.join(_format_members(fields.get('fields'), depth + 1))}>"
        case "udt":
            return _format_type(fields.get("sqlType", "udt"), depth + 1, {}, "")
        case _:
            raise _Malformed(f"`{log.shorten(json.to_canonical(value))}` is no type")


def _format_simple_type(name: str, collation: Json) -> str:
    """Return a simple type; the name of a collation follows its provider, `icu.UNICODE_CI`."""
    if name == "string" and isinstance(collation, str):
        return f"string collate {collation.rpartition('.')[2]}"
    return _SIMPLE.get(name, name)


def _format_members(fields: Json, depth: int) -> list[str]:
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        raise _Malformed("a struct has no fields")
    members = (json.as_mapping(field) for field in fields)
    return [f"{member.get('name')}:{_format_field_type(member, depth)}" for member in members]
