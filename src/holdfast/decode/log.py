r"""What Spark's logs share: lines in UTF-8, the first of them `vN`, the others JSON.

    v1
    {"…":…}

Only `\n` ends a line, because JSON may contain U+2028 and similar characters unescaped. As in
Spark, a `\r` before it is part of the line end. Every value that is read can be written again as
JSON in UTF-8: half a surrogate pair becomes U+FFFD, and a number that is not finite (`NaN`,
`1e999`) or has a thousand digits becomes its own text. A value that is nested deeper than any real
one is refused, so that code that walks a value cannot overflow the stack.
"""

import math
import re
from collections.abc import Mapping
from json import JSONDecoder

from holdfast.model import json
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json

_MOST_SHOWN = 40
_MOST_DIGITS = 9
_LONGEST_NUMBER = 1000
_DEEPEST = 200
_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def decode_text(data: bytes) -> str | Unreadable:
    """Return the text of a file that must be UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(reason=f"not UTF-8 at byte {error.start}")


def read_version(line: str) -> int | Unreadable:
    """Return the number in a log's first line, `vN`."""
    if not line:
        return Unreadable(reason="empty")
    digits = line[1:]
    if line[0] != "v" or not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        return Unreadable(reason=f"first line is `{line[:20]}`, expected `v1`")
    return int(digits)


def split_lines(rest: str) -> list[str]:
    """Split a text into lines like Java: keep empty lines, but none after the last line end."""
    lines = [line.removesuffix("\r") for line in rest.split("\n")]
    return lines if lines[-1] else lines[:-1]


def split_version(data: bytes, name: str, known: tuple[int, ...]) -> tuple[int, str] | Unreadable:
    """Return the version of a log and the text after its first line; `name` is for messages."""
    whole = decode_text(data)
    if isinstance(whole, Unreadable):
        return whole
    first, _, rest = whole.partition("\n")
    version = read_version(first.rstrip("\r"))
    if isinstance(version, Unreadable):
        return version
    if version not in known:
        expected = " or ".join(str(number) for number in known)
        return Unreadable(reason=f"{name} version {version}, expected {expected}")
    return version, rest


def _parse_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _parse_int(text: str) -> int | str:
    return int(text) if len(text) < _LONGEST_NUMBER else text


_DECODER = JSONDecoder(parse_float=_parse_float, parse_int=_parse_int, parse_constant=str)


def parse_json(line: str) -> "Json | Unreadable":
    """Parse a line as JSON."""
    if "\\ud" in line or "\\uD" in line:
        line = _SURROGATES.sub(lambda match: "\\ufffd" if match[1] else match[0], line)
    try:
        parsed: Json = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return Unreadable(reason=f"`{shorten(line)}` is not JSON")
    if line.count("[") + line.count("{") > _DEEPEST and _measure_depth(parsed) > _DEEPEST:
        return Unreadable(reason=f"`{shorten(line)}` is nested deeper than {_DEEPEST}")
    return parsed


def _measure_depth(value: Json) -> int:
    """Return how deep a value is nested, level by level, so that no depth overflows the stack."""
    depth, level = 0, [value]
    while level := [
        inner
        for outer in level
        if isinstance(outer, dict | list)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
        if isinstance(inner, dict | list)
    ]:
        depth += 1
    return depth


def parse_object(line: str) -> Mapping[str, Json] | Unreadable:
    """Parse a line as a JSON object."""
    value = parse_json(line)
    if isinstance(value, Unreadable | Mapping):
        return value
    return Unreadable(reason=f"`{shorten(line)}` is not a JSON object")


def shorten(line: str) -> str:
    """Return the beginning of a line, as long as a reason needs it."""
    return line if len(line) <= _MOST_SHOWN else line[:_MOST_SHOWN] + "…"


def as_integer(value: Json) -> int | None:
    """Return the value if it is a whole number, else None; true and false are not numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_texts(value: Json) -> dict[str, str]:
    """Return an object with every value as text, as Spark keeps settings; empty for other JSON."""
    return {
        key: member if isinstance(member, str) else json.to_canonical(member)
        for key, member in json.as_mapping(value).items()
    }
