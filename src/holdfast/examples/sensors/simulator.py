"""The sensors: (seed, count) -> messages, and messages -> what every table must contain.

Sensors send late, send twice and sometimes send garbage, but the same seed always sends the same
bytes, and a shorter run is a prefix of a longer one. So a sender that was killed after message K
can continue at K, and every table can be compared with `compute_truth` after any number of crashes.

    tick        0     1     2     3     4     5      one reading per tick, STEP_MS apart
    on time     r0    r1          r3          r5     sent when taken
    late                    r2 -------> r2           delayed by at most MAX_LATENESS_MS
    duplicate   r0 -------> r0                       the same payload again, after the first one
    garbage                             #4           a reading that was damaged on its way

A payload is one reading, as JSON (UTF-8, no spaces, fields in this order) or as Avro binary
(`AVRO_SCHEMA`, no header, no fingerprint):

    {"sensor":"sensor-0007","metric":"humidity","event_time":1767225600000,"value":4.5,"sequence":3}

A payload is valid if it is a JSON object or an Avro record with a non-empty string `sensor`, a
`metric` from `METRICS`, an integer `event_time` between `EARLIEST_MS` and `LATEST_MS`, a finite
number `value` and an integer `sequence` of at least 0. Garbage is invalid for a strict decoder and
for a lenient one: bytes that are not UTF-8 are in the metric, where replacing them does not help,
and a truncated Avro record is a prefix of a prefix-free code, which never decodes.
"""

import heapq
import json
import math
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count as count_from
from itertools import islice
from random import Random
from typing import TypeVar

T = TypeVar("T")
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z, the first event time
EARLIEST_MS = 1_577_836_800_000  # 2020-01-01T00:00:00Z
LATEST_MS = 4_102_444_800_000  # 2100-01-01T00:00:00Z
FAR_FUTURE_MS = 7_226_582_400_000  # 2199-01-01T00:00:00Z, where impossible event times begin
STEP_MS = 100
MINUTE_MS = 60_000
MAX_LATENESS_MS = 300_000
"""No reading or duplicate is further than this behind the newest event time sent before it."""
MAX_REPEAT_MS = 60_000
"""A duplicate follows its first message within this much simulated time."""

LATE_SHARE, DUPLICATE_SHARE, GARBAGE_SHARE = 0.10, 0.05, 0.02

AVRO_SCHEMA = """{"type":"record","name":"SensorReading","namespace":"holdfast.examples","fields":[
{"name":"sensor","type":"string"},{"name":"metric","type":"string"},
{"name":"event_time","type":"long"},{"name":"value","type":"double"},
{"name":"sequence","type":"long"}]}"""

_THOUSANDTHS: Mapping[str, tuple[int, int]] = {
    "temperature": (-10_000, 40_000),
    "humidity": (0, 100_000),
    "pressure": (950_000, 1_050_000),
}
METRICS = tuple(_THOUSANDTHS)
_JSON = json.JSONEncoder(separators=(",", ":"))


class Encoding(StrEnum):
    """The encoding of a payload."""

    JSON = "json"
    AVRO = "avro"


class MessageKind(StrEnum):
    """The kind of a message: a new reading, a repeated one, or garbage for the quarantine."""

    READING = "reading"
    DUPLICATE = "duplicate"
    GARBAGE = "garbage"


class Defect(StrEnum):
    """The defect of a garbage payload; `FIELD_MISSING` and `VALUE_AS_TEXT` occur only in JSON."""

    TRUNCATED = "truncated"
    NOT_UTF8 = "not_utf8"
    FIELD_MISSING = "field_missing"
    VALUE_AS_TEXT = "value_as_text"
    VALUE_NOT_FINITE = "value_not_finite"
    METRIC_UNKNOWN = "metric_unknown"
    TIME_IN_FUTURE = "time_in_future"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement; per sensor and metric, a higher sequence is strictly later."""

    sensor: str
    metric: str
    event_time: int
    value: float
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message: the sensor's id as the key, and the bytes of a reading or of garbage."""

    key: bytes
    payload: bytes
    kind: MessageKind
    content: Reading | Defect


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """Aggregates of the distinct readings of a sensor and metric in a minute of event time."""

    count: int
    min: float
    max: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was sent, and so what each table must contain.

    It is always true that sent = readings + duplicates + garbage.
    """

    sent: int
    readings: int
    duplicates: int
    garbage: int
    defects: Mapping[Defect, int]
    latest: Mapping[tuple[str, str], Reading]
    minutely: Mapping[tuple[str, str, int], Minute]


def generate_messages(
    seed: int, count: int, *, sensors: int = 20, encoding: Encoding = Encoding.JSON
) -> Iterator[Message]:
    """Return the first `count` messages of a seed; the same arguments give the same bytes."""
    if count < 0 or sensors < 1:
        raise ValueError(
            f"`count` is {count} and `sensors` is {sensors}, but must be at least 0 and 1"
        )
    # The seed is a text, because the integers 1 and -1 seed the same numbers.
    rng = Random(f"sensors {seed}")  # noqa: S311 - simulated data, not a secret
    return islice(_order_messages(_take_readings(sensors, rng), encoding, rng), count)


def compute_truth(sent: Iterable[Message]) -> Truth:
    """Return what these messages contain; a reading that was sent twice counts once."""
    total = 0
    defects: Counter[Defect] = Counter()
    distinct: dict[tuple[str, str, int], Reading] = {}
    for message in sent:
        total += 1
        match message.content:
            case Reading(sensor=sensor, metric=metric, sequence=sequence) as reading:
                distinct[sensor, metric, sequence] = reading
            case Defect() as defect:
                defects[defect] += 1
    oldest_first = sorted(distinct.values(), key=lambda reading: reading.event_time)
    return Truth(
        sent=total,
        readings=len(distinct),
        duplicates=total - len(distinct) - defects.total(),
        garbage=defects.total(),
        defects=dict(defects),
        latest={(reading.sensor, reading.metric): reading for reading in oldest_first},
        minutely=_aggregate_minutes(oldest_first),
    )


def encode(reading: Reading, encoding: Encoding) -> bytes:
    """Return the payload of a reading."""
    match encoding:
        case Encoding.JSON:
            return _to_json(_to_fields(reading))
        case Encoding.AVRO:
            sensor, metric = reading.sensor.encode(), reading.metric.encode()
            texts = _encode_long(len(sensor)) + sensor + _encode_long(len(metric)) + metric
            value = struct.pack("<d", reading.value)
            return texts + _encode_long(reading.event_time) + value + _encode_long(reading.sequence)


def _take_readings(sensors: int, rng: Random) -> Iterator[Reading]:
    """Yield readings in the order in which they are taken, one per tick, without end."""
    names = tuple(f"sensor-{number:04d}" for number in range(sensors))
    sequences: Counter[tuple[str, str]] = Counter()
    for event_time in count_from(START_MS, STEP_MS):
        sensor, metric = _pick(names, rng), _pick(METRICS, rng)
        low, high = _THOUSANDTHS[metric]
        yield Reading(
            sensor=sensor,
            metric=metric,
            event_time=event_time,
            value=(low + int(rng.random() * (high - low))) / 1_000,
            sequence=sequences[sensor, metric],
        )
        sequences[sensor, metric] += 1


def _order_messages(taken: Iterable[Reading], encoding: Encoding, rng: Random) -> Iterator[Message]:
    """Yield messages in the order in which they are sent."""
    bound, repeat = MAX_LATENESS_MS // STEP_MS, MAX_REPEAT_MS // STEP_MS
    delayed: list[tuple[int, int, Message]] = []  # (tick to send at, tie-breaker, message)
    ties = count_from()
    for tick, reading in enumerate(taken):
        key = reading.sensor.encode()
        if rng.random() < GARBAGE_SHARE:
            defect = _pick(_DEFECTS[encoding], rng)
            payload = _DAMAGE[defect](reading, encoding, rng)
            yield Message(key=key, payload=payload, kind=MessageKind.GARBAGE, content=defect)
        else:
            payload = encode(reading, encoding)
            message = Message(key=key, payload=payload, kind=MessageKind.READING, content=reading)
            # One tick less than the bound, so that a late reading can still be sent again.
            delay = _pick_delay(bound - 1, rng) if rng.random() < LATE_SHARE else 0
            if delay:
                heapq.heappush(delayed, (tick + delay, next(ties), message))
            else:
                yield message
            if rng.random() < DUPLICATE_SHARE:
                again = tick + delay + _pick_delay(min(bound - delay, repeat), rng)
                duplicate = replace(message, kind=MessageKind.DUPLICATE)
                heapq.heappush(delayed, (again, next(ties), duplicate))
        # After this tick's own message, so that a delay of one tick is already out of order.
        while delayed and delayed[0][0] <= tick:
            yield heapq.heappop(delayed)[2]


# Python promises the same numbers in every version only for `Random.random()`.
def _pick(options: Sequence[T], rng: Random) -> T:
    return options[int(rng.random() * len(options))]


def _pick_delay(longest: int, rng: Random) -> int:
    """Return a delay of 1 to `longest` ticks, mostly short, so that it ends within short runs."""
    return 1 + int(rng.random() ** 3 * longest)


def _to_fields(reading: Reading) -> dict[str, str | float]:
    return {name: getattr(reading, name) for name in Reading.__slots__}


def _to_json(fields: Mapping[str, str | float]) -> bytes:
    return _JSON.encode(fields).encode()


def _encode_long(number: int) -> bytes:
    """Encode a natural number: doubled (zigzag), 7 bits per byte, lowest first, 128 means more."""
    rest, encoded = number << 1, bytearray()
    while rest >> 7:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _drop_field(reading: Reading, _: Encoding, rng: Random) -> bytes:
    fields = _to_fields(reading)
    del fields[_pick(tuple(fields), rng)]
    return _to_json(fields)


# Each function keeps the event time, or else the sensor, metric and sequence, so that only empty
# payloads are equal. In both encodings, at least nine bytes follow the event time.
_DAMAGE: Mapping[Defect, Callable[[Reading, Encoding, Random], bytes]] = {
    Defect.TRUNCATED: lambda r, how, rng: encode(r, how)[: -_pick(range(1, 10), rng)],
    Defect.NOT_UTF8: lambda r, how, _: encode(r, how).replace(r.metric[-3:].encode(), b"\xff" * 3),
    Defect.FIELD_MISSING: _drop_field,
    Defect.VALUE_AS_TEXT: lambda r, _, __: _to_json(_to_fields(r) | {"value": str(r.value)}),
    Defect.VALUE_NOT_FINITE: lambda r, how, rng: encode(
        replace(r, value=_pick((math.nan, math.inf, -math.inf), rng)), how
    ),
    Defect.METRIC_UNKNOWN: lambda r, how, rng: encode(
        replace(r, metric=_pick(("voltage", "Temperature", ""), rng)), how
    ),
    Defect.TIME_IN_FUTURE: lambda r, how, _: encode(
        replace(r, event_time=r.event_time - START_MS + FAR_FUTURE_MS), how
    ),
    Defect.EMPTY: lambda *_: b"",
}
# The bytes of an Avro record contain neither names nor types.
_JSON_ONLY = (Defect.FIELD_MISSING, Defect.VALUE_AS_TEXT)
_DEFECTS: Mapping[Encoding, Sequence[Defect]] = {
    Encoding.JSON: tuple(Defect),
    Encoding.AVRO: tuple(defect for defect in Defect if defect not in _JSON_ONLY),
}


def _aggregate_minutes(distinct: Iterable[Reading]) -> dict[tuple[str, str, int], Minute]:
    values: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for reading in distinct:
        minute = reading.event_time - reading.event_time % MINUTE_MS
        values[reading.sensor, reading.metric, minute].append(reading.value)
    return {
        key: Minute(count=len(group), min=min(group), max=max(group), mean=_compute_mean(group))
        for key, group in values.items()
    }


def _compute_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
