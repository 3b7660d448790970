"""Which engine may commit to a table: delta-rs only where an add action meets every duty."""

import json
from pathlib import Path

import deltalake
import pytest
from deltalake.schema import PrimitiveType

from holdfast.sinks.delta import table as tables

Field = dict[str, object]
PLAIN: Field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def made(
    path: Path,
    *fields: Field,
    protocol: dict[str, object] | None = None,
    configuration: dict[str, str] | None = None,
) -> deltalake.DeltaTable:
    """A table as another engine may have left it: its log, written by hand."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    metadata = {
        "id": "0b7ae3a4-0000-0000-0000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields or [PLAIN]}),
        "partitionColumns": [],
        "configuration": configuration or {},
        "createdTime": 1,
    }
    actions = [
        {"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return deltalake.DeltaTable(path)


def features(*writer: str, reader: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "minReaderVersion": 3 if reader else 1,
        "minWriterVersion": 7,
        "writerFeatures": list(writer),
        **({"readerFeatures": list(reader)} if reader else {}),
    }


def field(**changes: object) -> Field:
    return PLAIN | changes


def nested(**changes: object) -> Field:
    return field(name="s", type={"type": "struct", "fields": [field(**changes)]})


def listed(**changes: object) -> Field:
    inside = {"type": "struct", "fields": [field(**changes)]}
    return field(name="l", type={"type": "array", "elementType": inside, "containsNull": True})


ALLOWED: dict[str, tuple[tuple[Field, ...], dict[str, object] | None, dict[str, str]]] = {
    "a plain table": ((), None, {}),
    "an old protocol": ((), {"minReaderVersion": 1, "minWriterVersion": 1}, {}),
    "append only": ((), None, {"delta.appendOnly": "true"}),
    "deletion vectors": ((), features("deletionVectors", reader=("deletionVectors",)), {}),
    "features without use": ((), features("appendOnly", "invariants"), {}),
    "a comment": ((field(metadata={"comment": "delta.invariants"}),), None, {}),
    "a struct": ((nested(),), None, {}),
}

REFUSED: dict[str, tuple[tuple[Field, ...], dict[str, object] | None, dict[str, str]]] = {
    "a constraint": ((), None, {"delta.constraints.positive": "id > 0"}),
    "not null": ((field(nullable=False),), None, {}),
    "not null inside a struct": ((nested(nullable=False),), None, {}),
    "not null inside a list": ((listed(nullable=False),), None, {}),
    "an invariant": ((field(metadata={"delta.invariants": "{}"}),), None, {}),
    "an invariant inside a struct": ((nested(metadata={"delta.invariants": "{}"}),), None, {}),
    "a generated column": ((field(metadata={"delta.generationExpression": "1"}),), None, {}),
    "an identity column": ((field(metadata={"delta.identity.start": 1}),), None, {}),
    "legacy column mapping": (
        (field(metadata={"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}),),
        {"minReaderVersion": 2, "minWriterVersion": 5},
        {"delta.columnMapping.mode": "name"},
    ),
    "column mapping": (
        (field(metadata={"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}),),
        features("columnMapping", reader=("columnMapping",)),
        {"delta.columnMapping.mode": "name"},
    ),
    "row tracking": ((), features("rowTracking", "domainMetadata"), {}),
    "clustering": ((), features("clustering", "domainMetadata"), {}),
    "in-commit timestamps": ((), features("inCommitTimestamp"), {}),
}


@pytest.mark.parametrize(("fields", "protocol", "configuration"), ALLOWED.values(), ids=ALLOWED)
def test_delta_rs_may_append(
    tmp_path: Path,
    fields: tuple[Field, ...],
    protocol: dict[str, object] | None,
    configuration: dict[str, str],
) -> None:
    table = made(tmp_path, *fields, protocol=protocol, configuration=configuration)
    assert tables.allows_native_append(table)


@pytest.mark.parametrize(("fields", "protocol", "configuration"), REFUSED.values(), ids=REFUSED)
def test_delta_rs_may_not(
    tmp_path: Path,
    fields: tuple[Field, ...],
    protocol: dict[str, object] | None,
    configuration: dict[str, str],
) -> None:
    table = made(tmp_path, *fields, protocol=protocol, configuration=configuration)
    assert not tables.allows_native_append(table)
    assert not tables.allows_native_merge(table)


def test_a_constraint_added_by_delta_rs(tmp_path: Path) -> None:
    table = deltalake.DeltaTable.create(
        tmp_path, deltalake.Schema([deltalake.Field("id", PrimitiveType("long"), nullable=True)])
    )
    assert tables.allows_native_append(table)
    table.alter.add_constraint({"positive": "id > 0"})
    assert not tables.allows_native_append(table)


@pytest.mark.parametrize("key", ["delta.enableDeletionVectors", "delta.enableChangeDataFeed"])
def test_a_table_whose_rewrites_are_marked_is_appended_to_but_not_merged(
    tmp_path: Path, key: str
) -> None:
    table = made(tmp_path, configuration={key: "true"})
    assert tables.allows_native_append(table)
    assert not tables.allows_native_merge(table)
