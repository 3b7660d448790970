"""JSON as a type, and the one canonical way to write it."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def to_canonical(value: Json) -> str:
    """Return the same text for the same value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse(text: str) -> Json:
    """Parse a JSON text; raise ValueError if it is not JSON."""
    value: Json = json.loads(text)
    return value


def as_mapping(value: Json) -> Mapping[str, Json]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: Json) -> Sequence[Json]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()
