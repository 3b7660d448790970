"""`state/<op>/_metadata/metadata` and `_metadata/v2/<batch>` -> OperatorMetadata.

    v1
    {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
     "stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":3}]}

Version 2 adds `stateSchemaFilePaths` to a store, a list of absolute paths (in early 4.0 a single
`stateSchemaFilePath`), and `operatorPropertiesJson`, which is JSON inside a JSON text.
"""

from collections.abc import Mapping, Sequence

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.checkpoint import OperatorMetadata, StateStoreInfo
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json

KNOWN_VERSIONS = (1, 2)


def decode(data: bytes) -> OperatorMetadata | Unreadable:
    """Return the operator, or why it cannot be read."""
    head = log.split_version(data, "operator metadata", KNOWN_VERSIONS)
    if isinstance(head, Unreadable):
        return head
    version, rest = head
    fields = log.parse_object(rest)
    if isinstance(fields, Unreadable):
        return fields
    operator = json.as_mapping(fields.get("operatorInfo"))
    operator_id, name = log.as_integer(operator.get("operatorId")), operator.get("operatorName")
    if operator_id is None or not isinstance(name, str):
        return Unreadable(reason="has no operator id or no operator name")
    stores = fields.get("stateStoreInfo")
    if not isinstance(stores, Sequence) or isinstance(stores, str):
        return Unreadable(reason="has no list of state stores")
    return OperatorMetadata(
        version=version,
        operator_id=operator_id,
        name=name,
        stores=tuple(_decode_store(json.as_mapping(store)) for store in stores),
        properties=_decode_properties(fields.get("operatorPropertiesJson")),
    )


def _decode_store(value: Mapping[str, Json]) -> StateStoreInfo:
    return StateStoreInfo(
        name=str(value.get("storeName") or ""),
        prefix_key_columns=log.as_integer(value.get("numColsPrefixKey")) or 0,
        partitions=log.as_integer(value.get("numPartitions")) or 0,
        schema_paths=_decode_paths(
            value.get("stateSchemaFilePaths", value.get("stateSchemaFilePath"))
        ),
    )


def _decode_paths(value: Json) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence):
        return tuple(path for path in value if isinstance(path, str))
    return ()


def _decode_properties(value: Json) -> Json:
    """Return the JSON inside the text, or the text itself if it is not JSON."""
    if not isinstance(value, str):
        return value if isinstance(value, Mapping) else {}
    inner = log.parse_json(value)
    return value if isinstance(inner, Unreadable) else inner
