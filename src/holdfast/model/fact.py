"""A fact of a checkpoint, with the files that it was read from.

A fact is one of four things, and which one is never guessed:

    Known           the value and the files that say so; for an inference also the reason
    Absent          the place of the value was read, and it has no value
    UnreadableFile  the file that has the value exists and cannot be read
    Unknown         nothing that was read contains the value
"""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A value that is not known, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Bytes that are not in the expected format, with the reason.

    `forbidden` and `too_long`: the bytes were not read, and nothing is known about them.
    """

    reason: str
    forbidden: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Generic[T_co]):
    """A value and the files that say so; `inferred` is the reason if no file states it directly."""

    value: T_co
    read_from: tuple[str, ...]
    inferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A value that does not exist: its place was read."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFile:
    """A file or folder that exists and cannot be read or understood, with the reason.

    `forbidden`: this user may not read it; it may be fine, and a query that runs as a different
    user may read it. `too_long`: it was not read because of its size; it may be fine too.
    `outside`: it is not part of the checkpoint, such as an event log that the user named.
    """

    path: str
    reason: str
    forbidden: bool = False
    too_long: bool = False
    outside: bool = False

    @property
    def is_unread(self) -> bool:
        """Return whether it was not read at all, and so may be fine."""
        return self.forbidden or self.too_long

    @property
    def description(self) -> str:
        """Return a clause that describes the problem."""
        if self.forbidden:
            return f"this user may not read `{self.path}` ({self.reason})"
        if self.too_long:
            return f"`{self.path}` was not read ({self.reason})"
        return f"`{self.path}` cannot be read ({self.reason})"


Fact: TypeAlias = Known[T] | Absent | UnreadableFile | Unknown
