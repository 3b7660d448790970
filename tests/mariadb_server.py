"""A real MariaDB server for tests, from Debian's packages, without installing them.

The packages are unpacked into the cache, so that no rights are needed and nothing of the machine
changes. The server listens on loopback, on a free port, in a folder of its own.
"""

import os
import secrets
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pymysql

CACHE = Path.home() / ".cache/holdfast/mariadb"
PACKAGES = (
    *("mariadb-server-core", "liburing2", "libpmem1", "libaio1", "libndctl6", "libdaxctl1"),
)
BOOTSTRAP = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
)
USER, DATABASE = "holdfast", "serving"
_START_SECONDS = 60


class MariaDbServer:
    """One server with one database and one user; ended by its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.password = secrets.token_hex(12)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        root = _unpacked()
        data = self._folder / "data"
        data.mkdir()
        temporary = self._folder / "tmp"  # a server that starts empties its own, and that of others
        temporary.mkdir()
        share = root / "usr/share/mysql"
        scripts = "".join((share / name).read_text("utf-8") for name in BOOTSTRAP)
        common = [
            *(str(root / "usr/sbin/mariadbd"), "--no-defaults", f"--datadir={data}"),
            f"--tmpdir={temporary}",
            *(f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets"),
            *("--user=root",) * (os.geteuid() == 0),
        ]
        subprocess.run(
            [*common, "--bootstrap", "--log-warnings=0"],
            input=f"CREATE DATABASE mysql;\nUSE mysql;\n{scripts}".encode(),
            env=_environment(root),
            check=True,
            capture_output=True,
        )
        set_up = self._folder / "set-up.sql"
        set_up.write_text(
            f"CREATE DATABASE {DATABASE};\n"
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'%';\n"
            f"CREATE USER 'admin'@'%' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO 'admin'@'%' WITH GRANT OPTION;\n"
        )
        self.port = _free_port()
        log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                *common,
                *("--bind-address=127.0.0.1", f"--port={self.port}"),
                *(f"--socket={self._folder}/socket", f"--init-file={set_up}"),
                *("--skip-name-resolve", "--innodb-buffer-pool-size=64M"),
                "--character-set-server=utf8mb4",
            ],
            env=_environment(root),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
        log.close()
        self._wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    @property
    def url(self) -> str:
        """The address, as JDBC takes it."""
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{DATABASE}"

    def query(self, text: str, user: str = USER) -> list[tuple[object, ...]]:
        """Rows of a query."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=self.password,
            database=DATABASE,
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.query("SELECT 1")
            except pymysql.err.OperationalError:
                log = (self._folder / "log").read_text(errors="replace")
                assert self._process is not None
                assert self._process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.1)
            else:
                return


def _unpacked() -> Path:
    """The root of the unpacked packages; downloaded the first time."""
    root = CACHE / "root"
    if root.exists():
        return root
    draft = CACHE / f"draft-{secrets.token_hex(4)}"
    draft.mkdir(parents=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=draft, check=True, capture_output=True)
    for package in draft.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, draft / "root"], check=True)
    (draft / "root").rename(root)
    return root


def _environment(root: Path) -> dict[str, str]:
    libraries = sorted({str(path.parent) for path in root.glob("usr/lib/**/*.so*")})
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
