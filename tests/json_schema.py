"""As much of JSON Schema as `inspect.schema.json` uses, to hold documents against it."""

from collections.abc import Iterator, Mapping, Sequence

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
KEYWORDS = frozenset(
    {
        "$defs", "$ref", "$schema", "additionalProperties", "const", "description", "enum", "items",
        "maxItems", "minItems", "oneOf", "properties", "required", "title", "type",
    }
)  # fmt: skip

Schema = Mapping[str, object]


def problems(value: object, schema: Schema, root: Schema, at: str = "$") -> Iterator[str]:
    """Every place where a value is not what the schema says."""
    unknown = schema.keys() - KEYWORDS
    assert not unknown, unknown
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        yield from problems(value, _member(_member(root, "$defs"), name), root, at)
        return
    if "oneOf" in schema:
        options = schema["oneOf"]
        assert isinstance(options, Sequence)
        fits = [one for one in options if not list(problems(value, one, root, at))]
        if len(fits) != 1:
            yield f"{at}: fits {len(fits)} of {len(options)}: {str(value)[:200]}"
    yield from _simple(value, schema, at)
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, at)
    if isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            yield from problems(one, _member(schema, "items"), root, f"{at}[{index}]")


def _simple(value: object, schema: Schema, at: str) -> Iterator[str]:
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    allowed = schema.get("enum")
    if isinstance(allowed, Sequence) and value not in allowed:
        yield f"{at}: {value!r} is not one of {allowed}"
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else kinds
    assert isinstance(names, Sequence)
    if names and not any(_is(value, str(name)) for name in names):
        yield f"{at}: {value!r} is no {names}"


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, _TYPES[name])


def _of_object(value: Mapping[str, object], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    known = _member(schema, "properties") if "properties" in schema else {}
    required = schema.get("required", [])
    assert isinstance(required, Sequence)
    yield from (f"{at}: no {name}" for name in required if name not in value)
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name in known:
            yield from problems(one, _member(known, name), root, f"{at}.{name}")
        elif others is False:
            yield f"{at}: {name} is not in the schema"
        elif isinstance(others, Mapping):
            yield from problems(one, others, root, f"{at}.{name}")


def _member(schema: Schema, name: str) -> Schema:
    found = schema[name]
    assert isinstance(found, Mapping)
    return found
