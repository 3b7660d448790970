"""A fact of a checkpoint, with where it was read.

A fact is one of four things, and which one is never guessed:

    Known           the value, the files that say so; for an inference also the reason
    Absent          it was looked for where it would be, and there is none
    UnreadableFile  the file that would say it is there and cannot be read
    Unknown         nothing that was looked at can say it
"""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something is not known, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Bytes that are not what their name says, and why.

    `forbidden` and `too_long`: they were not read, and nothing is known of them.
    """

    reason: str
    forbidden: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Generic[T_co]):
    """A value and the files that say so; `inferred` is the reason where no file says it itself."""

    value: T_co
    read_from: tuple[str, ...]
    inferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """It was looked for where it would be, and there is none."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFile:
    """A file or folder that is there and does not say what it should, and why.

    `forbidden`: this user may not read it. That says nothing of the file, nor of a query that runs
    as another user. `too_long`: it was not read because of its size, which says as little.
    `outside`: it is no part of the checkpoint, as a log that somebody named.
    """

    path: str
    reason: str
    forbidden: bool = False
    too_long: bool = False
    outside: bool = False

    @property
    def is_unread(self) -> bool:
        """Whether it was not looked at, and may be whole."""
        return self.forbidden or self.too_long

    @property
    def told(self) -> str:
        """In words, for a sentence."""
        if self.forbidden:
            return f"this user may not read `{self.path}` ({self.reason})"
        if self.too_long:
            return f"`{self.path}` was not read ({self.reason})"
        return f"`{self.path}` cannot be read ({self.reason})"


Fact: TypeAlias = Known[T] | Absent | UnreadableFile | Unknown
