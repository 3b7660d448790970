"""A transaction over JDBC ends with a commit or a rollback, and never by `setAutoCommit`."""

# ruff: noqa: D102, N802  a fake says what it does by what it stands for, in Java's names

import pytest
from py4j.protocol import Py4JError

from holdfast.sinks.jdbc.connection import Connection


class Java:
    """A connection by the JDBC specification: what turns auto-commit on commits what is open."""

    def __init__(self, failing: str | None = None) -> None:
        self._failing = failing
        self.said: list[str] = []
        self.open: list[str] = []
        self.committed: list[str] = []

    def put(self, row: str) -> None:
        self.open.append(row)

    def commit(self) -> None:
        self._say("commit")
        self.committed += self.open
        self.open = []

    def rollback(self) -> None:
        self._say("rollback")
        self.open = []

    def setAutoCommit(self, on: bool) -> None:  # noqa: FBT001  Java's own
        self._say(f"auto {on}")
        self.committed += self.open
        self.open = []

    def close(self) -> None:
        self._say("close")
        self.open = []

    def _say(self, word: str) -> None:
        self.said.append(word)
        if word == self._failing:
            raise Py4JError(word)


class Given(Connection):
    """A connection that is there already."""

    def __init__(self, java: Java) -> None:
        self._java = java


def test_all_of_it() -> None:
    java = Java()
    with Given(java).transaction():
        java.put("row")
    assert java.committed == ["row"]
    assert java.said == ["auto False", "commit", "auto True"]


def interrupted(java: Java) -> None:
    with Given(java).transaction():
        java.put("row")
        raise KeyError


def test_nothing_of_it() -> None:
    java = Java()
    with pytest.raises(KeyError):
        interrupted(java)
    assert java.committed == []
    assert java.said == ["auto False", "rollback", "auto True"]


def test_a_connection_that_cannot_roll_back_is_ended() -> None:
    java = Java("rollback")
    with pytest.raises(KeyError):
        interrupted(java)
    assert java.committed == []
    assert java.said == ["auto False", "rollback", "close"]
