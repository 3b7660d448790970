"""Decoding is total, and gives nothing that cannot be written again."""

import dataclasses
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import formats
from tests.formats import FORMATS, Format

from holdfast.model.fact import Unreadable

PIECES = st.sampled_from(
    [b"v1", b"v2", b"v3", b"v9", b"\n", b"\r\n", b"-", b"{}", b"[]", b"{", b"}", b"1e999", b"NaN",
     b'"\\ud800"', b'"\\ud83d\\ude00"', b"\0", b"\xff", b"\xed\xa0\x80", b"9" * 5000, b"[" * 3000,
     b"[" * 900 + b"]" * 900, b'{"a":' * 150 + b"1" + b"}" * 150,
     b"null", b"true", b"-1", b'"', b"\\", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"PK\5\6"]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, examples: tuple[bytes, ...]) -> bytes:
    """Bytes that were valid, after cuts, insertions and flips; sometimes any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(examples))
    for _ in range(draw(st.integers(0, 4))):
        at, until = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        piece = draw(PIECES | st.binary(max_size=4) | st.just(data[at:until]))
        data = data[:at] + piece + data[draw(st.sampled_from([at, until])) :]
    return data


def texts(value: object) -> Iterator[str]:
    """Every text in a decoded value, without recursion."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif dataclasses.is_dataclass(one):
            waiting.extend(getattr(one, field.name) for field in dataclasses.fields(one))
        elif isinstance(one, Mapping):
            waiting.extend([*one.keys(), *one.values()])
        elif isinstance(one, tuple | list):
            waiting.extend(one)
        elif isinstance(one, float):
            assert one - one == 0, "a number that JSON cannot write"


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"names", "lease"}))
@given(st.data())
def test_any_bytes_give_a_value_that_can_be_written(name: str, data: st.DataObject) -> None:
    found = FORMATS[name].decode(data.draw(mutated(FORMATS[name].examples)))
    for text in texts(found):
        text.encode("utf-8")


@pytest.mark.parametrize("name", ["names", "lease"])
@given(st.data())
def test_any_bytes_give_a_value(name: str, data: st.DataObject) -> None:
    FORMATS[name].decode(data.draw(mutated(FORMATS[name].examples)))


@pytest.mark.parametrize(("name", "spec"), FORMATS.items(), ids=FORMATS)
def test_every_example_is_read(name: str, spec: Format) -> None:
    assert spec.examples, name
    for example in spec.examples:
        found = spec.decode(example)
        assert not isinstance(found, Unreadable), found
        if isinstance(found, tuple | list):
            assert not any(isinstance(one, Unreadable) for one in found)


@pytest.mark.parametrize(
    "half", [formats.utf("v1\ud800"), formats.utf("v1") + formats.utf("\ud800")]
)
def test_half_a_character_can_be_told(half: bytes) -> None:
    found = FORMATS["state schema"].decode(half + formats.utf(formats.KEY) * 2)
    assert isinstance(found, Unreadable)
    found.reason.encode("utf-8")


DEEP = (b"[" * 990 + b"]" * 990, b'{"a":' * 990 + b"1" + b"}" * 990, b"[" * 199 + b"]" * 199)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("deep", DEEP, ids=["lists", "objects", "less deep"])
def test_whatever_is_deep_is_walked_or_refused(name: str, deep: bytes) -> None:
    schema = b'{"fields":[{"name":"a","type":' + deep + b"}]}"
    for head in (b"", b"v1\n", b"v2\n{}\na:", b'v1\n{"conf":', b'{"Event":"QueryStartedEvent",'):
        FORMATS[name].decode(head + deep)
    FORMATS[name].decode(formats.utf("v1") + formats.utf(schema.decode()) * 2)


MUCH = 1 << 18
LARGE = {
    "one line": b"x" * MUCH,
    "open lists": b"v1\n" + b"[" * MUCH,
    "open objects": b'v1\n{"a":' * (MUCH // 8),
    "many lines": b"v1\n{}\n" + b"-\n" * (MUCH // 2),
    "many digits": b"v1\n" + b"9" * MUCH,
    "escapes": b'v1\n"' + b"\\ud83d" * (MUCH // 6) + b'"',
    "backslashes": b'v1\n"' + b"\\" * MUCH,
    "zip ends": b"PK\5\6" * (MUCH // 4),
    "chunks": formats.utf("v2") + b"\x7f\xff\xff\xff" + b"\0\0" * (MUCH // 2),
    "families": formats.utf("v3") + b"\x7f\xff\xff\xff" + b"\0" * MUCH,
    "folders": b"state/0/0/" + b"default/" * (MUCH // 8),
    "state info": b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",'
    b'"description":"a\\nid = a\\nrunId = b\\nbatch = 1",'
    b'"sparkPlanInfo":{"nodeName":"StateStoreSave","simpleString":"'
    + b"state info [ checkpoint = , " * (MUCH // 28)
    + b'"}}',
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", LARGE)
def test_much_of_anything_takes_time_by_its_length(name: str, shape: str) -> None:
    began = time.process_time()
    FORMATS[name].decode(LARGE[shape])
    assert time.process_time() - began < 8
