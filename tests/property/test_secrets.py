"""Whatever the secret is and wherever it stands: it is neither shown, nor stored, nor declared."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.secret_shapes import INNOCENT, PATHS, TEXTS, URLS

from holdfast import sinks
from holdfast.errors import OptionInvalid
from holdfast.report import error_line, redact
from holdfast.run.watch.records import RunLog
from holdfast.storage import open_store

SECRETS = st.text(string.ascii_letters + string.digits + "_-.~+", min_size=9, max_size=40).filter(
    lambda text: text[0].isalnum() and text[-1].isalnum() and sum(map(str.isdigit, text)) > 1
)
AROUND = st.sampled_from(["", "Caused by: x.SQLException: ", "  at ", "error: `", "…\n"])


@given(secret=SECRETS, shape=st.sampled_from([*URLS, *PATHS, *TEXTS]), before=AROUND)
@settings(max_examples=400)
def test_a_secret_in_any_shape_is_taken_out(secret: str, shape: str, before: str) -> None:
    text = f"{before}{shape.replace('@@', secret, 1)}"
    assert secret not in redact.text(text)
    assert secret not in error_line.shorten(f"java.lang.Error: x\n{text}\n\tat y")
    assert secret not in error_line.extract(text)


@given(secret=SECRETS, shape=st.sampled_from([*URLS, *PATHS, *TEXTS]))
@settings(max_examples=200)
def test_a_secret_in_any_shape_is_not_stored(secret: str, shape: str) -> None:
    text = shape.replace("@@", secret, 1)
    store = open_store("memory://")
    log = RunLog(store, "job", 1, "run")
    log.add({"event": "terminated", "error": text})
    log.add({"event": "started", "sink": text, "sources": [text], "writes": [{"path": text}]})
    log.add({"event": "progress", "sources": [{"description": text, "endOffset": {"o": text}}]})
    log.flush()
    data = store.read(".holdfast/job/runs/0000000000001-run/000000.jsonl")
    assert isinstance(data, bytes)
    assert len(data.splitlines()) == 3
    assert secret.encode() not in data
    assert json.dumps(secret)[1:-1].encode() not in data


@given(secret=SECRETS, shape=st.sampled_from(URLS))
@settings(max_examples=100)
def test_a_secret_in_the_address_of_a_database_is_refused(secret: str, shape: str) -> None:
    with pytest.raises(OptionInvalid) as refused:
        sinks.jdbc_append(shape.replace("@@", secret, 1), "t")
    assert secret not in str(refused.value)


@pytest.mark.parametrize("shape", PATHS)
def test_a_secret_in_a_path_is_refused(shape: str) -> None:
    with pytest.raises(OptionInvalid) as refused:
        sinks.delta_append(shape.replace("@@", "hunter2secret"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "option", ["password", "accessToken", "javax.net.ssl.keyStorePassword", "clientSecret", "PWD"]
)
def test_a_secret_among_the_options_of_jdbc_is_refused(option: str) -> None:
    with pytest.raises(OptionInvalid):
        sinks.jdbc_append("jdbc:mariadb://db/x", "t", options={option: "x"})


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:mariadb://db:3306/shop?useSSL=true&passwordCharacterEncoding=utf8",
        "jdbc:postgresql://db:5432/x?currentSchema=a&sslkey=/etc/key.pem",
    ],
)
def test_an_address_without_a_secret_is_taken(url: str) -> None:
    options = {"driver": "x", "sessionInitStatement": "SET x", "keytab": "/etc/k"}
    assert sinks.jdbc_append(url, "t", options=options).name == "t"


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays_letter_by_letter(text: str) -> None:
    assert redact.text(text) == text


def test_offsets_of_a_topic_that_is_called_as_a_secret_is_are_stored() -> None:
    """They are compared with the offset log at the next start."""
    store = open_store("memory://")
    log = RunLog(store, "job", 1, "run")
    ends = {"tokens": {"0": 5}, "password-resets": {"0": 7}}
    log.add({"event": "progress", "sources": [{"endOffset": ends, "description": "x"}]})
    log.add({"event": "started", "plan": {"columns": {"token": "string"}}})
    log.flush()
    data = store.read(".holdfast/job/runs/0000000000001-run/000000.jsonl")
    assert isinstance(data, bytes)
    progress, started = map(json.loads, data.splitlines())
    assert progress["sources"] == [{"endOffset": ends, "description": "x"}]
    assert started["plan"] == {"columns": {"token": "string"}}
