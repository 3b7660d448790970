"""Secrets are taken out, by the name of an option and by the look of a text; nothing else is."""

import time
from typing import TYPE_CHECKING

import pytest

from holdfast.report import redact

if TYPE_CHECKING:
    from holdfast.model.json import Json


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("password=abc x", "password=(redacted) x"),
        ("url: password=abc", "url: password=(redacted)"),
        ('token: "a b c", x', 'token: "(redacted)", x'),
        ("{'api_key': 'k'}", "{'api_key': '(redacted)'}"),
        (r"{\"password\":\"x y\"}", r"{\"password\":\"(redacted)\"}"),
        ("s3://user:pass@host/x", "s3://(redacted)@host/x"),
        ("https://h/x?sig=abc&se=1", "https://h/x?(redacted)&se=1"),
        ("AccountKey=abc==;EntityPath=e", "AccountKey=(redacted);EntityPath=e"),
        ("SharedAccessKey=k;x", "SharedAccessKey=(redacted);x"),
        ("fs.s3a.access.key=AKIAABCDEFGHIJKLMNOP", "fs.s3a.access.key=(redacted)"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: (redacted)"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig b", "a (redacted) b"),
        (
            'sasl.jaas.config=o.a.k.PlainLoginModule required username="u" password="p"; x',
            "sasl.jaas.config=(redacted) x",
        ),
    ],
)
def test_a_secret_is_taken_out_of_a_text(given: str, shown: str) -> None:
    assert redact.text(given) == shown
    assert redact.text(shown) == shown


@pytest.mark.parametrize(
    "given",
    [
        "offsets/3",
        "spark.sql.streaming.stateStore.providerClass=org.apache.Provider",
        "tokens consumed: 5",
        "batch 7 is committed (password)",
        '{"orders":{"0":30}}',
        "file:///C:/landing/a.json",
        "2026-01-01 00:00:00",
    ],
)
def test_what_is_no_secret_stays(given: str) -> None:
    assert redact.text(given) == given


def test_a_secret_is_taken_out_of_json_by_its_name() -> None:
    given: Json = {
        "kafka.sasl.jaas.config": "x",
        "nested": [{"ssl.keystore.password": "x", "url": "s3://a:b@c"}],
        "secret": "",
        "partitions": 3,
        "offset": {"0": 5},
    }
    assert redact.value(given) == {
        "kafka.sasl.jaas.config": "(redacted)",
        "nested": [{"ssl.keystore.password": "(redacted)", "url": "s3://(redacted)@c"}],
        "secret": "",
        "partitions": 3,
        "offset": {"0": 5},
    }
    assert redact.settings({"a.token": "x", "b": "y"}) == {"a.token": "(redacted)", "b": "y"}


@pytest.mark.parametrize(
    "given",
    [
        "pass" * 50_000,
        "a" * 200_000 + "=",
        "x.password " * 20_000,
        "://" * 60_000,
        '"' * 100_000,
        "password=" * 20_000,
        "LoginModule required " * 5_000,
        "-----BEGIN PRIVATE KEY-----" * 5_000,
        "eyJ" * 50_000,
        "?sig=" * 30_000,
    ],
    ids=lambda given: given[:12],
)
def test_a_long_text_takes_no_longer_than_its_length(given: str) -> None:
    started = time.process_time()
    redact.text(given)
    assert time.process_time() - started < 5
