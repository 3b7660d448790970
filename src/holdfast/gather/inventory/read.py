"""The answer of a storage -> a decoded value, or why there is none."""

from collections.abc import Callable
from typing import TypeVar

from holdfast.model.fact import Unreadable, UnreadableFile
from holdfast.storage import Missing, Refused

T = TypeVar("T")
OTHER_USER = "run as a user who may read it, or pass credentials with `--storage KEY=VALUE`"


def decode_file(
    data: bytes | Missing | Refused, decode: Callable[[bytes], T | Unreadable]
) -> T | Unreadable | Missing:
    """Return the decoded file, why it cannot be read, or that it is missing."""
    if isinstance(data, Missing):
        return data
    if isinstance(data, Refused):
        return Unreadable(reason=data.reason, forbidden=data.forbidden, too_long=data.too_long)
    return decode(data)


def make_unreadable(path: str, problem: Unreadable | Refused) -> UnreadableFile:
    """Return an unreadable file with its path and its reason."""
    return UnreadableFile(
        path=path, reason=problem.reason, forbidden=problem.forbidden, too_long=problem.too_long
    )
