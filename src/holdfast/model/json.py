"""JSON as a type, and the one canonical way to write it."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def to_canonical(value: Json) -> str:
    """The same text for the same value, whatever the order its keys were given in."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse(text: str) -> Json:
    """Parse, raising ValueError for anything that is not JSON."""
    value: Json = json.loads(text)
    return value


def as_mapping(value: Json) -> Mapping[str, Json]:
    """The value if it is an object, an empty object otherwise."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: Json) -> Sequence[Json]:
    """The value if it is a list, an empty one otherwise."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()
