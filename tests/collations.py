"""A locale whose order is not that of the bytes, for the PostgreSQL server of the tests.

It is compiled into a folder that the server's user can read. Where the machine has no sources of
locales, Debian's package is unpacked into the cache; nothing of the machine changes.
"""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCALE = "en_US.UTF-8"
_SOURCES = Path("/usr/share/i18n")
_CACHE = Path.home() / ".cache/holdfast/locales"


@contextmanager
def compiled() -> Iterator[str]:
    """Give the value of LOCPATH under which a process finds the locale."""
    with tempfile.TemporaryDirectory(prefix="holdfast-locales-") as folder:
        Path(folder).chmod(0o755)
        subprocess.run(
            ["localedef", "-i", "en_US", "-f", "UTF-8", f"{folder}/{LOCALE}"],
            env={**os.environ, "I18NPATH": str(_sources())},
            check=True,
            capture_output=True,
        )
        yield folder


def _sources() -> Path:
    """The sources of locales; downloaded the first time, where there are none."""
    if (_SOURCES / "locales/en_US").exists():
        return _SOURCES
    root = _CACHE / "root"
    if not root.exists():
        draft = _CACHE / f"draft-{secrets.token_hex(4)}"
        draft.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "locales"], cwd=draft, check=True)
        for package in draft.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, draft / "root"], check=True)
        (draft / "root").rename(root)
    return root / _SOURCES.relative_to("/")
