"""Where a password is found: declarations name the place, never the password.

env:NAME     the environment variable NAME
file:PATH    the first line of a file
"""

import os
from pathlib import Path

from holdfast.errors import SinkRefused


def read_secret(reference: str) -> str:
    """The password that a reference leads to; raises SinkRefused if there is none."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = os.environ.get(name)  # noqa: TID251  the user's reference names it
        if value is None:
            raise SinkRefused(
                f"expected a password in the environment variable `{name}`, found none",
                hint=f"set `{name}` where the driver and the executors run",
            )
        return value
    try:
        return Path(name).read_text().partition("\n")[0]
    except OSError as error:
        raise SinkRefused(
            f"expected a password in the file `{name}`, found: {error.strerror}",
            hint=f"put `{name}` where the driver and the executors run",
        ) from None
