"""The offset log's format: what Spark writes, what very old Spark wrote, and what is damaged."""

import pytest

from holdfast.decode import offset_log
from holdfast.model.fact import Unreadable
from holdfast.model.offsets import ControlBatch, OffsetEntry, SourceMetadata, SourceOffset

METADATA = (
    b'{"batchWatermarkMs":5,"batchTimestampMs":1767225600000,'
    b'"conf":{"spark.sql.shuffle.partitions":"200"}}'
)


def entry(version: int, *sources: SourceOffset) -> OffsetEntry:
    return OffsetEntry(
        version=version,
        watermark_ms=5,
        timestamp_ms=1767225600000,
        settings={"spark.sql.shuffle.partitions": "200"},
        sources=sources,
    )


def bare(*sources: SourceOffset) -> OffsetEntry:
    return OffsetEntry(version=1, watermark_ms=0, timestamp_ms=0, settings={}, sources=sources)


SECOND_LINE = (
    b'{"sourceMetadataInfo":{"a":{"sourceId":"a","providerName":"kafka","apiVersion":"V2"}},'
    b'"controlBatchInfo":{"operationType":"x"}}'
)
READABLE = {
    "a file source": (
        b"v1\n" + METADATA + b'\n{"logOffset":3}',
        entry(1, SourceOffset(source="0", offset={"logOffset": 3})),
    ),
    "offsets with spaces that Spark does not write": (
        b"v1\n" + METADATA + b'\n{"logOffset": 3}\n{"a b":{"0":7}}',
        entry(
            1,
            SourceOffset(source="0", offset={"logOffset": 3}, respelled=True),
            SourceOffset(source="1", offset={"a b": {"0": 7}}),
        ),
    ),
    "several sources by position, one without an offset": (
        b"v1\n" + METADATA + b'\n{"logOffset":3}\n-\n{"topic":{"0":7,"1":9}}',
        entry(
            1,
            SourceOffset(source="0", offset={"logOffset": 3}),
            SourceOffset(source="1", offset=None),
            SourceOffset(source="2", offset={"topic": {"0": 7, "1": 9}}),
        ),
    ),
    "sources by name": (
        b"v2\n" + METADATA + b'\nlanding:{"logOffset":3}\n1:-',
        entry(
            2,
            SourceOffset(source="landing", offset={"logOffset": 3}),
            SourceOffset(source="1", offset=None),
        ),
    ),
    "a name is cut at its first colon": (
        b"v2\n" + METADATA + b'\na:{"b":{"0":1}}',
        entry(2, SourceOffset(source="a", offset={"b": {"0": 1}})),
    ),
    "of two lines with one name the last": (
        b"v2\n" + METADATA + b"\na:1\na:2",
        entry(2, SourceOffset(source="a", offset=2)),
    ),
    "texts in JSON, which a Python source may write": (
        b"v1\n" + METADATA + b'\n"{\\"a\\":1}"\n"a"\nnull',
        entry(
            1,
            SourceOffset(source="0", offset='{"a":1}'),
            SourceOffset(source="1", offset="a"),
            SourceOffset(source="2", offset="null"),
        ),
    ),
    "a trailing newline": (
        b"v1\n" + METADATA + b'\n{"logOffset":3}\n',
        entry(1, SourceOffset(source="0", offset={"logOffset": 3})),
    ),
    "a number, as the socket source writes it": (
        b"v1\n" + METADATA + b"\n41",
        entry(1, SourceOffset(source="0", offset=41)),
    ),
    "an empty Kafka offset": (
        b"v1\n" + METADATA + b"\n{}",
        entry(1, SourceOffset(source="0", offset={})),
    ),
    "an empty second line": (
        b'v1\n\n{"logOffset":0}',
        bare(SourceOffset(source="0", offset={"logOffset": 0})),
    ),
    "Spark 2.1, without conf": (
        b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n{"logOffset":0}',
        bare(SourceOffset(source="0", offset={"logOffset": 0})),
    ),
    "no settings, in so many words": (
        b'v1\n{"conf":null}\n-',
        bare(SourceOffset(source="0", offset=None)),
    ),
    "line ends of Windows, as a checkout may have made them": (
        b"v1\r\n{}\r\n-\r\n41",
        bare(SourceOffset(source="0", offset=None), SourceOffset(source="1", offset=41)),
    ),
    "what the second version says beyond": (
        b"v2\n" + SECOND_LINE + b"\na:-",
        OffsetEntry(
            version=2,
            watermark_ms=0,
            timestamp_ms=0,
            settings={},
            sources=(SourceOffset(source="a", offset=None),),
            source_metadata={"a": SourceMetadata(provider="kafka", api_version="V2")},
            control=ControlBatch(operation="x", info=""),
        ),
    ),
}

DAMAGED = {
    "nothing at all": (b"", "empty"),
    "a NUL byte first": (b"\x00v1\n{}\n-", "first line"),
    "the version line alone": (b"v1", "ends after the version line"),
    "an unknown version": (b"v3\n{}\n-", "version 3, expected 1 or 2"),
    "version 0": (b"v0\n{}\n-", "version 0, expected 1 or 2"),
    "a version without a number": (b"v\n{}\n-", "first line is `v`"),
    "a version in other digits": ("v٣\n{}\n-".encode(), "first line"),
    "a version too long for any log": (b"v1111111111\n{}\n-", "first line"),
    "no version line": (METADATA + b"\n-", "first line"),
    "metadata cut in the middle": (
        b'v1\n{"batchWatermarkMs":0,"batchTi',
        "is not JSON",
    ),
    "metadata that is a list": (b"v1\n[]\n-", "the second line `[]` is not a JSON object"),
    "not UTF-8": (b"v1\n{}\n\xff\xfe", "not UTF-8 at byte 6"),
    "a name that is cut": (b"v2\n{}\na:1\nord", "the line `ord` has no name of a source"),
    "names without a second line": (b"v2\n\na:1", "the second line is empty, in version 2"),
    "a watermark in words": (b'v1\n{"batchWatermarkMs":"5"}\n-', "`batchWatermarkMs` in the"),
    "a setting that is no text": (b'v1\n{"conf":{"a":true}}\n-', "`conf` in the second line is no"),
    "a setting with parts": (b'v2\n{"conf":{"a":{}}}\na:-', "texts and numbers, in version 2"),
    "settings in a list": (b'v1\n{"conf":[]}\n-', "`conf` in the second line is no object"),
    "more lines than sources": (b"v1\n{}\n" + b"\n" * 20_000, "lines, expected one a source"),
    "lists without end": (b"v1\n" + b"[" * 100_000, "is not JSON"),
}


@pytest.mark.parametrize(("data", "expected"), READABLE.values(), ids=READABLE)
def test_what_spark_writes_is_read(data: bytes, expected: OffsetEntry) -> None:
    assert offset_log.decode(data) == expected


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_says_why(data: bytes, reason: str) -> None:
    found = offset_log.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


@pytest.mark.parametrize(
    "data", [b"v1\n", b"v1\n\n", b"v1\n" + METADATA + b"\n", b"v1\n" + METADATA]
)
def test_an_entry_without_a_source_is_torn(data: bytes) -> None:
    """Every query has a source: an entry that names none was cut short."""
    assert isinstance(offset_log.decode(data), Unreadable)


@pytest.mark.parametrize("line", [b'{"logOff', b'{"topic":{"0":', b'["a"', b'"a'])
def test_a_source_line_that_is_cut_is_torn(line: bytes) -> None:
    assert isinstance(offset_log.decode(b"v1\n" + METADATA + b"\n" + line), Unreadable)


@pytest.mark.parametrize(
    ("written", "taken"),
    [("1.5", 1), ("-1.5", -1), ("2e3", 2000), ("1e30", (1 << 63) - 1), ("null", 0)],
)
def test_a_watermark_with_a_fraction_is_taken_as_spark_takes_it(written: str, taken: int) -> None:
    found = offset_log.decode(f'v1\n{{"batchWatermarkMs":{written}}}\n-'.encode())
    assert isinstance(found, OffsetEntry)
    assert found.watermark_ms == taken


def test_a_setting_that_is_a_number_is_taken_as_text() -> None:
    found = offset_log.decode(b'v1\n{"conf":{"spark.sql.shuffle.partitions":8}}\n-')
    assert isinstance(found, OffsetEntry)
    assert found.settings == {"spark.sql.shuffle.partitions": "8"}
