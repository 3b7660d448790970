"""The simulator sends what it says, and knows exactly what it sent."""

import base64
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.examples.sensors.landing import KafkaWriter, LandingWriter, NotDelivered, read_landed
from holdfast.examples.sensors.simulator import (
    AVRO_SCHEMA,
    MAX_LATENESS_MS,
    Defect,
    Encoding,
    Message,
    MessageKind,
    Reading,
    compute_truth,
    generate_messages,
)

SCHEMA = fastavro.parse_schema(json.loads(AVRO_SCHEMA))
YEAR_2020, YEAR_2100 = 1_577_836_800_000, 4_102_444_800_000
encodings = pytest.mark.parametrize("encoding", Encoding)
some_seeds = settings(max_examples=6, deadline=None)
seeds = st.integers(min_value=-(2**63), max_value=2**63)


def decoded(payload: bytes, encoding: Encoding) -> object:
    """What the payload says, or `None` if it says nothing at all."""
    try:
        if encoding is Encoding.JSON:
            return json.loads(payload.decode())
        return fastavro.schemaless_reader(io.BytesIO(payload), SCHEMA)
    except (ValueError, EOFError, IndexError):
        return None


def obeys_the_rule(record: object) -> bool:
    """The rule of a valid reading, written again and without the simulator's code."""
    if not isinstance(record, dict):
        return False
    sensor, metric = record.get("sensor"), record.get("metric")
    event_time, value, sequence = (record.get(at) for at in ("event_time", "value", "sequence"))
    return (
        (isinstance(sensor, str) and sensor != "")
        and metric in {"temperature", "humidity", "pressure"}
        and (type(event_time) is int and YEAR_2020 <= event_time <= YEAR_2100)
        and (type(value) is float and math.isfinite(value))
        and (type(sequence) is int and sequence >= 0)
    )


def wire(sent: Iterable[Message]) -> list[tuple[bytes, bytes]]:
    return [(message.key, message.payload) for message in sent]


@encodings
@given(seed=seeds)
@some_seeds
def test_same_seed_same_messages_and_a_short_run_begins_a_long_one(
    encoding: Encoding, seed: int
) -> None:
    long = list(generate_messages(seed, 600, encoding=encoding))
    assert long == list(generate_messages(seed, 600, encoding=encoding))
    assert long[:250] == list(generate_messages(seed, 250, encoding=encoding))


@given(one=seeds, other=seeds)
@some_seeds
def test_other_seed_other_bytes(one: int, other: int) -> None:
    assert (wire(generate_messages(one, 50)) == wire(generate_messages(other, 50))) == (
        one == other
    )


def test_a_seed_and_its_negative_differ() -> None:
    assert wire(generate_messages(1, 50)) != wire(generate_messages(-1, 50))


@pytest.mark.parametrize(
    ("encoding", "digest"),
    [(Encoding.JSON, "1eb0ca392069bd50"), (Encoding.AVRO, "986da9010abc305c")],
)
def test_the_bytes_do_not_depend_on_the_process(encoding: Encoding, digest: str) -> None:
    sent = b"\n".join(
        base64.b64encode(message.payload)
        for message in generate_messages(7, 5_000, encoding=encoding)
    )
    assert hashlib.sha256(sent).hexdigest()[:16] == digest


@encodings
@given(seed=seeds)
@some_seeds
def test_readings_obey_the_rule_and_garbage_breaks_it(encoding: Encoding, seed: int) -> None:
    for message in generate_messages(seed, 1_000, encoding=encoding):
        record = decoded(message.payload, encoding)
        match message.content:
            case Reading() as reading:
                assert message.kind in {MessageKind.READING, MessageKind.DUPLICATE}
                assert obeys_the_rule(record)
                assert record == {name: getattr(reading, name) for name in Reading.__slots__}
                assert message.key == reading.sensor.encode()
                assert reading.value == round(reading.value, 3)
            case Defect():
                assert message.kind is MessageKind.GARBAGE
                assert not obeys_the_rule(record)


@encodings
def test_all_garbage_breaks_the_rule_and_only_empty_payloads_repeat(encoding: Encoding) -> None:
    spoilt = [
        m for m in generate_messages(3, 20_000, encoding=encoding) if m.kind is MessageKind.GARBAGE
    ]
    assert not any(obeys_the_rule(decoded(message.payload, encoding)) for message in spoilt)
    repeated = [of for of, times in Counter(m.payload for m in spoilt).items() if times > 1]
    assert repeated == [b""]
    json_only = {Defect.FIELD_MISSING, Defect.VALUE_AS_TEXT} if encoding is Encoding.AVRO else set()
    assert {message.content for message in spoilt} == set(Defect) - json_only


@given(seed=seeds)
@some_seeds
def test_no_prefix_of_an_avro_record_decodes(seed: int) -> None:
    for message in generate_messages(seed, 20, encoding=Encoding.AVRO):
        if message.kind is MessageKind.READING:
            for length in range(len(message.payload)):
                assert decoded(message.payload[:length], Encoding.AVRO) is None


def test_bytes_that_are_not_utf8_do_not_help_a_lenient_decoder() -> None:
    spoilt = [m.payload for m in generate_messages(3, 20_000) if m.content is Defect.NOT_UTF8]
    for payload in spoilt:
        for errors in ("ignore", "replace"):
            assert not obeys_the_rule(json.loads(payload.decode(errors=errors)))


@encodings
@given(seed=seeds)
@some_seeds
def test_lateness_is_bounded_and_newer_is_later(encoding: Encoding, seed: int) -> None:
    newest = 0
    event_times: dict[tuple[str, str], dict[int, int]] = {}
    for message in generate_messages(seed, 4_000, encoding=encoding):
        if isinstance(message.content, Reading):
            reading = message.content
            assert newest - reading.event_time <= MAX_LATENESS_MS
            newest = max(newest, reading.event_time)
            pair = event_times.setdefault((reading.sensor, reading.metric), {})
            pair[reading.sequence] = reading.event_time
    for pair in event_times.values():
        in_order = [pair[sequence] for sequence in sorted(pair)]
        assert in_order == sorted(set(in_order))


@encodings
@given(seed=seeds)
@some_seeds
def test_a_duplicate_repeats_an_earlier_message(encoding: Encoding, seed: int) -> None:
    earlier: set[tuple[bytes, bytes]] = set()
    for message in generate_messages(seed, 2_000, encoding=encoding):
        if message.kind is not MessageKind.GARBAGE:
            at = (message.key, message.payload)
            assert (at in earlier) == (message.kind is MessageKind.DUPLICATE)
            earlier.add(at)


def test_the_shares_are_about_what_they_should_be() -> None:
    sent = list(generate_messages(11, 20_000))
    newest = late = 0
    for message in sent:
        if isinstance(message.content, Reading) and message.kind is MessageKind.READING:
            late += message.content.event_time < newest
            newest = max(newest, message.content.event_time)
    kinds = Counter(message.kind for message in sent)
    assert late / len(sent) == pytest.approx(0.10, abs=0.02)
    assert kinds[MessageKind.DUPLICATE] / len(sent) == pytest.approx(0.05, abs=0.01)
    assert kinds[MessageKind.GARBAGE] / len(sent) == pytest.approx(0.02, abs=0.005)


@given(seed=seeds, count=st.integers(min_value=0, max_value=3_000))
@some_seeds
def test_the_truth_adds_up(seed: int, count: int) -> None:
    sent = list(generate_messages(seed, count, sensors=3))
    known = compute_truth(sent)
    kinds = Counter(message.kind for message in sent)
    assert known.sent == count == known.readings + known.duplicates + known.garbage
    assert known.readings == kinds[MessageKind.READING]
    assert known.duplicates == kinds[MessageKind.DUPLICATE]
    assert known.garbage == kinds[MessageKind.GARBAGE] == sum(known.defects.values())
    assert known.readings == sum(minute.count for minute in known.minutely.values())


def test_the_truth_is_what_a_plain_count_of_the_payloads_finds() -> None:
    sent = list(generate_messages(5, 8_000, sensors=2))
    valid = [
        json.loads(m.payload) for m in sent if obeys_the_rule(decoded(m.payload, Encoding.JSON))
    ]
    once = {(of["sensor"], of["metric"], of["sequence"]): of for of in valid}.values()
    known = compute_truth(sent)
    assert known.readings == len(once)
    for (sensor, metric), reading in known.latest.items():
        pair = [of for of in once if (of["sensor"], of["metric"]) == (sensor, metric)]
        assert max(of["event_time"] for of in pair) == reading.event_time
        assert max(of["sequence"] for of in pair) == reading.sequence
        for minute in {of["event_time"] // 60_000 for of in pair}:
            values = [of["value"] for of in pair if of["event_time"] // 60_000 == minute]
            found = known.minutely[sensor, metric, minute * 60_000]
            assert (found.count, found.min, found.max) == (len(values), min(values), max(values))
            assert found.mean == pytest.approx(sum(values) / len(values))


def test_a_sender_that_repeats_itself_adds_only_duplicates() -> None:
    sent = [
        message for message in generate_messages(5, 500) if message.kind is not MessageKind.GARBAGE
    ]
    once, twice = compute_truth(sent), compute_truth(sent + sent)
    assert twice.readings == once.readings
    assert twice.duplicates == once.duplicates + len(sent)
    assert (twice.latest, twice.minutely) == (once.latest, once.minutely)


@pytest.mark.parametrize(("count", "sensors"), [(-1, 1), (1, 0)])
def test_impossible_numbers_are_refused_at_once(count: int, sensors: int) -> None:
    with pytest.raises(ValueError, match="must be at least 0 and 1"):
        generate_messages(1, count, sensors=sensors)


@encodings
def test_landing_files_hold_the_messages_in_order(tmp_path: Path, encoding: Encoding) -> None:
    sent = list(generate_messages(9, 1_050, encoding=encoding))
    writer = LandingWriter(directory=tmp_path / "landing", messages_per_file=100)
    assert writer.write(sent) == writer.count_landed() == 1_050
    assert list(read_landed(writer.directory)) == wire(sent)
    lines = b"".join(file.read_bytes() for file in sorted(writer.directory.iterdir())).splitlines()
    assert [tuple(map(base64.b64decode, line.split(b"\t"))) for line in lines] == wire(sent)
    assert len(list(writer.directory.iterdir())) == 11  # and none with a dot


@pytest.mark.parametrize("killed_after", [0, 40, 250])
def test_a_restarted_landing_goes_on_where_it_was(tmp_path: Path, killed_after: int) -> None:
    LandingWriter(directory=tmp_path, messages_per_file=40).write(
        generate_messages(9, killed_after)
    )
    (tmp_path / f".part-{killed_after:09d}.tsv").write_bytes(b"half a li")
    again = LandingWriter(directory=tmp_path, messages_per_file=60)
    rest = islice(generate_messages(9, 700), again.count_landed(), None)
    assert again.write(rest, first=again.count_landed()) == 700
    assert list(read_landed(tmp_path)) == wire(generate_messages(9, 700))


def test_a_landed_file_is_never_overwritten(tmp_path: Path) -> None:
    writer = LandingWriter(directory=tmp_path)
    before = writer.land(tuple(generate_messages(1, 10)), first=0).read_bytes()
    with pytest.raises(FileExistsError, match="message 0 has already landed"):
        writer.land(tuple(generate_messages(2, 10)), first=0)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


def test_kafka_acknowledges_every_message() -> None:
    writer = KafkaWriter("", "readings", {"log_level": 0, "test.mock.num.brokers": 1})
    assert writer.write(generate_messages(4, 300)) == 300
    writer.flush()


def test_kafka_that_is_not_there_raises() -> None:
    writer = KafkaWriter("127.0.0.1:1", "readings", {"log_level": 0})
    writer.write(generate_messages(4, 3))
    with pytest.raises(NotDelivered, match=r"\(0 failed, 3 unanswered\): no answer in"):
        writer.flush(timeout_seconds=0.2)


def test_kafka_that_gives_up_on_a_message_raises() -> None:
    writer = KafkaWriter("127.0.0.1:1", "readings", {"log_level": 0, "message.timeout.ms": 50})
    writer.write(generate_messages(4, 3))
    with pytest.raises(NotDelivered, match=r"\(3 failed, 0 unanswered\): Local: Message timed out"):
        writer.flush(timeout_seconds=10)
