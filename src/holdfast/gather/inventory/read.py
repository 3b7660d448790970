"""Stage 2: what storage answered -> what the bytes say."""

from collections.abc import Callable
from typing import TypeVar

from holdfast.model.fact import Unreadable, UnreadableFile
from holdfast.storage import Missing, Refused

T = TypeVar("T")
OTHER_USER = "run as a user who may read it, or give its keys with `--storage KEY=VALUE`"


def decode_file(
    data: bytes | Missing | Refused, decode: Callable[[bytes], T | Unreadable]
) -> T | Unreadable | Missing:
    """What a file says, why it cannot be read, or that it is not there."""
    if isinstance(data, Missing):
        return data
    if isinstance(data, Refused):
        return Unreadable(reason=data.reason, forbidden=data.forbidden, too_long=data.too_long)
    return decode(data)


def make_unreadable(path: str, said: Unreadable | Refused) -> UnreadableFile:
    """A file that says nothing, by why it does not."""
    return UnreadableFile(
        path=path, reason=said.reason, forbidden=said.forbidden, too_long=said.too_long
    )
