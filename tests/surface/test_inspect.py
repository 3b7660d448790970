"""`holdfast inspect` as a user sees it: whole output, exit codes, every form, and no secrets."""

import importlib.resources
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import Done, holdfast, on_terminal, started
from tests.golden import Golden, each
from tests.json_schema import problems
from tests.looking import evidence
from tests.rights import as_nobody

from holdfast.report import document

SCHEMA = json.loads(
    importlib.resources.files("holdfast.report").joinpath("inspect.schema.json").read_text("utf-8")
)

PENDING = (
    "is planned but not committed: it is running now, or a restart runs it again over the same"
    " range"
)
NO_OFFSETS = (
    "batch 2 is committed; which batches are planned is unknown: this user may not read `offsets`"
    " (permission denied)"
)
NO_STATE = "no folder `state`: the query is stateless, or its state was deleted"
NO_RECORDS = (
    "no run record and no event log: only the times and settings in the offset log show restarts,"
    " and they do not show quick ones"
)


def inspect(*arguments: str) -> Done:
    """Run the command."""
    return holdfast("inspect", *arguments)


def test_the_whole_report(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=3, committed=2)
    for batch in range(2):
        at = (1_767_225_600_000 + batch * 1000 + 500) * 1_000_000
        os.utime(location / f"commits/{batch}", ns=(at, at))
    done = started("inspect", str(location))
    assert (done.returncode, done.stderr) == (0, "")
    not_told = "a checkpoint does not contain it; a run record or `--event-log PATH` would"
    assert done.stdout.splitlines() == [
        f"batch 2 {PENDING}",
        "",
        f"  checkpoint location   {location}",
        f"  query id              {files.QUERY_ID}  (metadata)",
        "  source offsets        0: Kafka or Event Hubs  (offsets/2)",
        f"  sink                  unknown  {not_told}",
        f"  output mode           unknown  {not_told}",
        f"  stateful operators    absent  {NO_STATE}",
        "  state store provider  HDFSBackedStateStoreProvider  (offsets/2)",
        *_lines(done.stdout, "  Spark version", 2),
        "  restart history       0 signs of a restart  (offsets/0, offsets/2)",
        f"                        inferred: {NO_RECORDS}",
        "",
        "Batches  0-2 planned, 0-1 committed",
        "  batch  planned (UTC)        status       consumed  duration",
        "      0  2026-01-01 00:00:00  committed           -    500 ms  " + "█" * 16,
        "      1  2026-01-01 00:00:01  committed  20 offsets    500 ms  " + "█" * 16,
        "      2  2026-01-01 00:00:02  pending    20 offsets         -",
        "",
        "Source 0  Kafka or Event Hubs",
        "  batch 2: 20 offsets",
        "  orders-0  20 → 30  +10  advanced",
        "  orders-1  20 → 30  +10  advanced",
        "",
        *_lines(done.stdout, "Files", 1),
    ]


def _lines(text: str, start: str, count: int) -> list[str]:
    lines = text.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith(start))
    return lines[at : at + count]


def test_the_json_names_what_it_promises(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=3, committed=2)
    found = json.loads(inspect(str(location), "--json").stdout)
    assert found["format"] == 1
    assert found["location"] == str(location)
    assert list(found["evidence"]) == [
        "checkpoint_location",
        "query_id",
        "source_offsets",
        "sink",
        "output_mode",
        "stateful_operators",
        "state_store_provider",
        "spark_version",
        "restart_history",
    ]
    named = ("first", "last_planned", "last_committed", "pending")
    assert [found["batches"][name] for name in named] == [0, 2, 1, [2]]
    assert found["evidence"]["source_offsets"]["value"] == {"0": {"orders": {"0": 30, "1": 30}}}
    assert found["files"]["offsets"]["count"] == 3
    assert found["unreadable"] == []


@each
def test_the_json_is_as_its_schema_says(golden: Golden) -> None:
    shown = json.loads(json.dumps(document.to_json(evidence(golden.checkpoint))))
    assert list(problems(shown, SCHEMA, SCHEMA)) == []


def test_the_json_of_damage_is_as_its_schema_says(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=20, committed=10)
    files.state(location, range(3, 9))
    (location / "metadata").write_text("x")
    (location / "offsets/19").write_text("x")
    (location / "commits/9").write_text("x")
    (location / "inner/offsets").mkdir(parents=True)
    (location / "inner/offsets/0").write_text("x")
    shown = json.loads(json.dumps(document.to_json(evidence(location))))
    assert list(problems(shown, SCHEMA, SCHEMA)) == []
    report = SCHEMA["$defs"]["report"]
    assert list(problems({**shown, "more": 1}, report, SCHEMA)) == ["$: more is not in the schema"]
    assert list(problems({**shown, "more": 1}, SCHEMA, SCHEMA)) != []


def test_one_batch_and_two(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=6, committed=6)
    assert inspect(str(location), "--batch", "4").stdout == (
        "batch 4, from the end of batch 3: committed\n"
        "\n"
        "Source 0  Kafka or Event Hubs\n"
        "  batch 4: 20 offsets\n"
        "  orders-0  40 → 50  +10  advanced\n"
        "  orders-1  40 → 50  +10  advanced\n"
    )
    compared = json.loads(inspect(str(location), "--compare", "1:5", "--json").stdout)
    (source,) = compared["sources"]
    assert (compared["after"], compared["batch"]) == (1, 5)
    assert [one["count"] for one in source["consumed"]["partitions"]] == [40, 40]


def test_a_folder_of_checkpoints(tmp_path: Path) -> None:
    files.write(tmp_path / "a")
    files.write(tmp_path / "deep/b", planned=2, committed=1)
    done = inspect(str(tmp_path))
    assert [re.sub(r"\d{4}-\S+ \S+", "WHEN", line) for line in done.stdout.splitlines()] == [
        f"2 checkpoints below {tmp_path}",
        f"  checkpoint  {'query id':<36}  {'changed (UTC)':<19}  status",
        f"  a           {files.QUERY_ID}  WHEN  idle: batch 2 is committed, nothing is pending",
        f"  deep/b      {files.QUERY_ID}  WHEN  batch 1 {PENDING}",
    ]
    rows = json.loads(inspect(str(tmp_path), "--json").stdout)["checkpoints"]
    assert [row["batches"]["last_planned"] for row in rows] == [2, 1]
    assert inspect(str(tmp_path), "--markdown").stdout.count("\n| `") == 2


def test_folders_that_may_hold_more_checkpoints_are_named(tmp_path: Path) -> None:
    files.write(tmp_path / "a")
    files.write(tmp_path / "half")
    for locked in (files.write(tmp_path / "locked"), tmp_path / "deep/locked"):
        locked.mkdir(parents=True, exist_ok=True)
        locked.chmod(0)
    (tmp_path / "half/offsets").chmod(0)
    place = str(tmp_path)
    done = as_nobody(tmp_path, lambda: inspect(place))
    assert done.returncode == 0
    assert [re.sub(r"\d{4}-\S+ \S+", "WHEN", line) for line in done.stdout.splitlines()] == [
        f"2 checkpoints below {tmp_path}",
        f"  checkpoint  {'query id':<36}  {'changed (UTC)':<19}  status",
        f"  a           {files.QUERY_ID}  WHEN  idle: batch 2 is committed, nothing is pending",
        f"  half        {files.QUERY_ID}  WHEN  {NO_OFFSETS}",
        "Not searched; may contain more checkpoints",
        "  locked: permission denied",
        "  deep/locked: permission denied",
    ]
    found = json.loads(as_nobody(tmp_path, lambda: inspect(place, "--json").stdout))
    assert found["unreadable"] == [
        {"path": path, "reason": "permission denied"} for path in ("locked", "deep/locked")
    ]
    assert found["checkpoints"][1]["batches"]["unlisted"] == [
        {"path": "offsets", "reason": "permission denied"}
    ]
    shown = as_nobody(tmp_path, lambda: inspect(place, "--markdown").stdout)
    assert "- `deep/locked`: permission denied\n" in shown


def test_a_folder_with_none_but_locked_ones_is_forbidden(tmp_path: Path) -> None:
    files.write(tmp_path / "c").chmod(0)
    done = as_nobody(tmp_path, lambda: inspect(str(tmp_path)))
    assert done.returncode == 3
    assert "is not a checkpoint; this user may not list folders below it: `c`" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("nowhere",), "LOCATION_MISSING", 2),
        (("",), "LOCATION_MISSING", 2),
        (("ftp://host/c",), "STORAGE_UNAVAILABLE", 3),
        (("c", "--batch", "99"), "BATCH_MISSING", 2),
        (("c", "--compare", "1"), "OPTION_INVALID", 2),
        (("c", "--compare", "0:1", "--batch", "1"), "OPTION_INVALID", 2),
        (("c", "--compare", "0:99"), "BATCH_MISSING", 2),
        (("c", "--storage", "x"), "OPTION_INVALID", 2),
        (("c", "--event-log", "nowhere"), "EVENT_LOG_UNREADABLE", 2),
        ((".", "--batch", "1"), "NOT_A_CHECKPOINT", 2),
        ((".", "--html"), "OPTION_INVALID", 2),
        (("c", "--json", "--html"), "OPTION_INVALID", 2),
        (("c", "--markdown", "--json"), "OPTION_INVALID", 2),
        (("c", "--html", "--batch", "1"), "OPTION_INVALID", 2),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_hint(
    tmp_path: Path, arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    files.write(tmp_path / "c")
    files.write(tmp_path / "d")
    named = arguments[0] if "://" in arguments[0] else str(tmp_path / arguments[0])
    done = inspect(named if arguments[0] else "", *arguments[1:])
    assert (done.returncode, done.stdout) == (exit_code, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"{code}: ")
    assert second.startswith("hint: ")


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("s3:/lake/c d", "write two: `holdfast inspect 's3://lake/c d'`"),
        ("wasbs://c@a.blob.core.windows.net/x", "name it as `abfss://"),
        (
            "dbfs:/c",
            "copy the checkpoint to such storage, or mount it and name a path like `/dbfs/…`",
        ),
    ],
)
def test_a_url_that_is_not_known_is_told_another(url: str, hint: str) -> None:
    done = inspect(url)
    assert done.returncode == 3
    assert done.stderr.splitlines()[1].startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    ("named", "hint"),
    [
        ("no/such/place", "inspect the folder above: `holdfast inspect '{base}'`"),
        ("my c/none", "inspect the folder above: `holdfast inspect '{base}/my c'`"),
        (
            "my c/metadata",
            "name the folder of the checkpoint, as in `holdfast inspect '{base}/my c'`",
        ),
        ("my c/offsets", "inspect the checkpoint: `holdfast inspect '{base}/my c'`"),
        (
            "my c/offsets/1",
            "name the folder of the checkpoint, as in `holdfast inspect '{base}/my c'`",
        ),
        ("my c/offsets/99", "inspect the folder above: `holdfast inspect '{base}/my c'`"),
        ("my c --batch 9", "choose one of these batches, as in `--batch 2`"),
        ("my c --compare 1:99", "choose one of these batches, as in `--compare 1:2`"),
        ("my c --compare 7:99", "choose one of these batches, as in `--compare 0:2`"),
        (
            "my c --html --batch 1",
            "show the whole checkpoint: `holdfast inspect --html '{base}/my c'`",
        ),
        (". --html", "show one checkpoint: `holdfast inspect --html '{base}/my c'`"),
        (". --batch 1", "name one checkpoint, as in `'{base}/my c'`"),
    ],
)
def test_a_hint_can_be_followed(tmp_path: Path, named: str, hint: str) -> None:
    base = tmp_path / "two words"
    files.write(base / "my c")
    place, dash, rest = named.partition(" --")
    done = inspect(os.path.normpath(base / place), *f"{dash.strip()}{rest}".split())
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == f"hint: {hint.format(base=base)}"


@pytest.mark.parametrize("url", ["s3://", "s3a:///", "gs://", "abfss://"])
def test_a_bucket_has_a_name(url: str) -> None:
    done = inspect(url)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first == f"LOCATION_MISSING: `{url}` does not name a bucket and a folder"
    assert second.endswith(f"{url.rstrip('/')}//bucket/folder`")


@pytest.mark.parametrize("url", ["hdfs:///x", "hdfs:/x"])
def test_a_name_node_that_nothing_names(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    done = inspect(url)
    assert done.returncode == 3
    first, second = done.stderr.splitlines()
    assert first == (
        "STORAGE_UNAVAILABLE: neither `hdfs:///x` nor Hadoop's own settings specify a NameNode"
    )
    assert second == (
        "hint: set HADOOP_CONF_DIR to the folder of `core-site.xml`, or write `hdfs://namenode:8020/x`"
    )


@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        (
            "state",
            ("--batch", "1:3"),
            "`1:3` is not a whole number of 0 or more; for a range use `--changes FROM:TO`",
        ),
        (
            "inspect",
            ("--batch", "abc"),
            "`abc` is not a whole number of 0 or more; for a range use `--compare A:B`",
        ),
        ("state", ("--limit", "0"), "`0` is not a whole number of 1 to 2,147,483,646"),
        (
            "state",
            ("--limit", "2147483647"),
            "`2147483647` is not a whole number of 1 to 2,147,483,646",
        ),
        ("state", ("--operator", "-1"), "`-1` is not a whole number of 0 or more"),
    ],
)
def test_what_is_no_number_is_told_what_was_expected(
    tmp_path: Path, command: str, option: tuple[str, str], said: str
) -> None:
    done = holdfast(command, str(files.write(tmp_path / "c")), *option)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last == f"Error: Invalid value for '{option[0]}': {said}"


@pytest.mark.parametrize(("command", "option"), [("inspect", "--compare"), ("state", "--changes")])
@pytest.mark.parametrize("given", ["0:" + "1" * 5000, "3", "3:", "-1:2", "1:2:3", "٣:٤"])
def test_what_are_no_two_batches_is_told_what_was_expected(
    tmp_path: Path, command: str, option: str, given: str
) -> None:
    done = holdfast(command, str(files.write(tmp_path / "c")), option, given)
    assert done.returncode == 2
    said = f"`{option} {given}` does not name two batches as in `{option} 3:7`"
    assert done.stderr.splitlines()[0] == f"OPTION_INVALID: {said}"


def test_a_link_to_itself_is_no_question_of_rights(tmp_path: Path) -> None:
    files.write(tmp_path / "c")
    (tmp_path / "self").symlink_to("self")
    done = inspect(str(tmp_path / "self"))
    assert done.stderr == (
        f"STORAGE_UNAVAILABLE: cannot list `{tmp_path}/self`: too many levels of"
        f" symbolic links\nhint: inspect the folder above: `holdfast inspect {tmp_path}`\n"
    )
    (tmp_path / "only").mkdir()
    (tmp_path / "only/self").symlink_to("self")
    assert "not all of it was searched: `self`" in inspect(str(tmp_path / "only")).stderr


def test_a_home_that_no_shell_has_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(tmp_path / "c")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert json.loads(inspect("~/c", "--json").stdout)["location"] == str(tmp_path / "c")
    (tmp_path / "log").write_text("")
    assert inspect("~/c", "--event-log=~/log").returncode == 0
    assert inspect("~/c", "--event-log=~/none").returncode == 2


def _started(query: str) -> str:
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"
    return json.dumps({"Event": event, "id": query, "runId": "r", "name": None, "timestamp": "t"})


def _ended(query: str) -> str:
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent"
    return json.dumps({"Event": event, "id": query, "runId": "r", "exception": None})


@pytest.mark.parametrize(
    ("log", "silent"),
    [
        ("", "has no streaming query"),
        (None, "has no streaming query"),
        (_started("another"), "has only other queries"),
        (_ended(files.QUERY_ID), ""),
        (_started(files.QUERY_ID), ""),
    ],
    ids=["empty file", "empty folder", "another query", "an end only", "this query"],
)
def test_an_event_log_that_tells_nothing_is_told_of(
    tmp_path: Path, log: str | None, silent: str
) -> None:
    location, place = files.write(tmp_path / "c"), tmp_path / "log"
    if log is None:
        place.mkdir()
    else:
        place.write_text(f"{log}\n")
    shown = json.loads(inspect(str(location), "--event-log", str(place), "--json").stdout)
    facts, text = shown["evidence"], inspect(str(location), "--event-log", str(place)).stdout
    if not silent:
        assert shown["unreadable"] == []
        assert facts["restart_history"]["value"][0]["sign"] == "event log"
        return
    assert shown["unreadable"] == [{"path": str(place), "reason": f"the event log {silent}"}]
    assert "cannot be read" not in shown["verdict"]["text"]
    reason = f"a checkpoint does not contain it, and the given event log {silent}"
    assert facts["sink"] == facts["output_mode"] == {"status": "unknown", "reason": reason}
    assert f"no run record, and the given event log {silent}: only the times" in text
    assert f"{place}: the event log {silent}" in text
    told = holdfast("diagnose", str(location), "--event-log", str(place)).stdout
    assert f"the event log {silent}" in told


def test_an_event_log_without_a_name(tmp_path: Path) -> None:
    done = inspect(str(files.write(tmp_path / "c")), "--event-log", "")
    assert done.returncode == 2
    assert done.stderr.startswith("EVENT_LOG_UNREADABLE: the path of the event log is empty")


def test_one_batch_names_its_checkpoint_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    shown = json.loads(inspect("c", "--batch", "1", "--json").stdout)
    assert shown["location"] == str(tmp_path / "c")


def test_secrets_are_in_no_form(tmp_path: Path) -> None:
    location = files.write(tmp_path / "base/c")
    settings = {
        "spark.x.password": "hunter2", "spark.y": "s3://key:hunter2@bucket",
        "spark.signingKey": "hunter2", "kafka.sasl.username": "hunter2",
        "spark.z": "job --password hunter2 -x", "spark.h": "Authorization: Token hunter2",
    }  # fmt: skip
    older = {**settings, "spark.x.password": "hunter2-old"}
    files.offsets(location, 1, 1_767_225_601_000, {**files.SETTINGS, **older})
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, **settings})
    text = (location / "offsets/2").read_text()
    source = {"sasl.jaas.config": "PlainLoginModule required password='hunter2';", "n": 1}
    (location / "offsets/2").write_text(f"{text}\n{json.dumps(source)}")
    (location / "token=hunter2").write_text("?")
    records = tmp_path / "base/.holdfast/c/runs/1767225600000-run"
    records.mkdir(parents=True)
    started = {
        "event": "started", "at_ms": 1, "query_id": files.QUERY_ID, "run_id": "run", "name": "c",
        "sink": "jdbc:postgresql://user:hunter2@host/db?password=hunter2", "sources": [],
    }  # fmt: skip
    ended = {
        "event": "terminated",
        "at_ms": 2,
        "error": "failed: --token hunter2, password=hunter2",
    }
    (records / "000000.jsonl").write_text(f"{json.dumps(started)}\n{json.dumps(ended)}\n")
    batch = ("--batch", "2")
    for form in ((), ("--json",), ("--markdown",), ("--html",), batch, (*batch, "--json")):
        done = inspect(str(location), *form)
        assert done.returncode == 0, done.stderr
        assert "hunter2" not in done.stdout, form
        assert "(redacted)" in done.stdout, form


FORMS = ((), ("--json",), ("--markdown",), ("--html",))
DETAILS = (("--compare", "0:2"), ("--compare", "0:2", "--json"))
KEYS = ("AKIAIOSFODNN7EXAMPLE", "dapi" + "0123456789abcdef" * 2)


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_letters_and_digits_are_in_no_form(tmp_path: Path, key: str) -> None:
    location = files.write(tmp_path / "c")
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, "spark.y": key})
    entry = (location / "offsets/2").read_text()
    (location / "offsets/2").write_text(f"{entry}\n{json.dumps({'id': key})}")
    for form in (*FORMS, *DETAILS):
        done = inspect(str(location), *form)
        assert done.returncode == 0, done.stderr
        assert key not in done.stdout, form
        assert "(redacted)" in done.stdout, form


@pytest.mark.parametrize("name", ["metadata", "offsets/2", "commits/2", "sources/0/0"])
def test_what_is_below_a_secret_name_or_cut_in_it_is_in_no_form(tmp_path: Path, name: str) -> None:
    location = files.write(tmp_path / "c")
    (location / "sources/0").mkdir(parents=True)
    torn = '{"password":"hunter2-torn'
    (location / name).write_text(torn if name == "metadata" else f"v1\n{torn}")
    for form in (*FORMS, *DETAILS):
        done = inspect(str(location), *form)
        assert done.returncode == 0, done.stderr
        assert "hunter2" not in done.stdout, form
    whole = {"password": {"value": "hunter2", "old": ["hunter2"]}, "n": 1}
    files.write(tmp_path / "d")
    entry = (tmp_path / "d/offsets/2").read_text()
    (tmp_path / "d/offsets/2").write_text(f"{entry}\n{json.dumps(whole)}")
    for form in (*FORMS, *DETAILS):
        done = inspect(str(tmp_path / "d"), *form)
        assert done.returncode == 0, done.stderr
        assert "hunter2" not in done.stdout, form
        assert "(redacted)" in done.stdout, form


@pytest.mark.parametrize("command", ["inspect", "state", "diagnose", "run", "jobs", "check"])
def test_secrets_are_in_no_error(command: str) -> None:
    named = ("run", "jobs", "check")
    place = "ftp://AKIAIOSFODNN7EXAMPLE:hunter2/x@bucket/c"
    mistakes = [holdfast(command, f"password=hunter2{'.py' if command in named else ''}")]
    if command not in named:
        mistakes += [holdfast(command, place), holdfast(command, ".", place)]
        mistakes += [started(command, place, "--debug")]
    for done in mistakes:
        assert done.returncode != 0
        assert "(redacted)" in done.stderr
        assert "hunter2" not in done.stderr
        assert "AKIAIOSFODNN7EXAMPLE" not in done.stderr


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    location = files.write(tmp_path / "<b>&c", planned=40, committed=39)
    files.state(location, range(1, 40))
    page = inspect(str(location), "--html").stdout
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") >= 3
    assert page.count('<td class="careful">pending</td>') == 1
    assert "<b>&c" not in page
    assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page)
    assert page.count("<section") == page.count("</section>")


def test_markdown_is_a_table_a_ticket_can_show(tmp_path: Path) -> None:
    done = inspect(str(files.write(tmp_path / "a|b")), "--markdown")
    assert done.stdout.startswith("# Checkpoint")
    facts = [line for line in done.stdout.splitlines() if re.match(r"\| [a-zS]", line)][:10]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in facts)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colours_unless_told_not_to(
    tmp_path: Path, variables: Mapping[str, str], *, coloured: bool
) -> None:
    command = [sys.executable, "-m", "holdfast", "inspect", str(files.write(tmp_path / "c"))]
    assert ("\x1b[" in on_terminal(command, "stdout", variables)) is coloured


def test_a_bar_on_a_terminal_shows_how_far_a_long_listing_is() -> None:
    code = (
        "import time; from holdfast.cli.bar import ProgressBar\n"
        "with ProgressBar() as told:\n"
        "    told(1, 0.1); time.sleep(1.1); told(412_345, 0.5); told(412_346, 0.5)"
    )
    shown = on_terminal([sys.executable, "-c", code], "stderr", {})
    assert shown == f"\r\033[K{'█' * 15}{'░' * 15} 412,345 files\r\033[K"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=150, committed=150)
    files.state(location, range(1, 10), partitions=300)
    command = f"{sys.executable} -m holdfast inspect --json {location} | head -c 100"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) == 100


def test_it_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    code = (
        "import sys; from holdfast.cli.main import main\n"
        f"try: main(['inspect', {str(location)!r}])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'pyarrow', 'obstore', 'deltalake', 'rich', 'hdfs_native', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "[]\n"


def test_it_works_with_no_pyspark_installed(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    code = (
        "import sys\nfor name in ('pyspark', 'delta', 'py4j'): sys.modules[name] = None\n"
        "from holdfast.cli.main import main\n"
        f"main([*{['inspect', '--json', str(location)]!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == 1


def test_a_row_says_of_metadata_what_the_report_does(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    (location / "metadata").symlink_to("metadata")
    shown = json.loads(inspect(str(tmp_path), "--json").stdout)
    assert shown["unreadable"] == []
    assert shown["checkpoints"][0]["query_id"]["status"] == "unreadable"
    assert (
        json.loads(inspect(str(location), "--json").stdout)["evidence"]["query_id"]
        == (shown["checkpoints"][0]["query_id"])
    )


def test_a_row_without_an_id_is_not_called_healthy(tmp_path: Path) -> None:
    (files.write(tmp_path / "c") / "metadata").unlink()
    (row,) = json.loads(inspect(str(tmp_path), "--json").stdout)["checkpoints"]
    assert row["verdict"]["level"] == "careful"
    assert "; no file `metadata`: " in row["verdict"]["text"]


def test_a_range_that_goes_back_says_so(tmp_path: Path) -> None:
    shown = inspect(str(files.write(tmp_path / "c")), "--compare", "2:1").stdout
    assert "back to the end of batch 1" in shown
