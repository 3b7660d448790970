"""Looking at folders as a user who owns nothing; the tests run as root."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_NOBODY = 65534


def as_nobody(folder: Path, look: Callable[[], T]) -> T:
    """What a look gives a user who owns nothing below a folder; the way to it is opened.

    The first look is this user's, and loads what looking needs: nobody may not read that, maybe.
    """
    look()
    for path in (*folder.parents, folder):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    if os.getuid() != 0:
        return look()
    os.seteuid(_NOBODY)
    try:
        return look()
    finally:
        os.seteuid(0)
