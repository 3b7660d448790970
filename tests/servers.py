"""Real storage servers on the loopback interface: an S3 gateway, and HDFS of one DataNode.

    with S3Server(folder) as s3:
        open_store(f"{s3.bucket('lake')}/checkpoints", s3.storage)

The S3 server is versitygw, built once by `go install` into the user's cache; HDFS is Hadoop's own
NameNode and DataNode, from the locked jars. Each ends with its `with` block, by its process id.
"""

import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import ServerUnavailable, StorageUnavailable
from holdfast.run.session import jars
from holdfast.storage import open_store

S3_GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_START_WITHIN_S = 60.0
_STOP_WITHIN_S = 20.0


class Server(ABC):
    """Processes that live as long as the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Return when the server answers."""

    def stop(self) -> None:
        """End the processes, the last one started first; their files stay."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(_STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, command: list[str], log: str, environment: Mapping[str, str]) -> None:
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **environment},
            )
        self._processes.append(process)

    def _wait(self, what: str, answers: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        while not answers():
            dead = next((p for p in self._processes if p.poll() is not None), None)
            if dead is not None or time.monotonic() > deadline:
                found = f"a process that ended with {dead.returncode}" if dead else "no answer"
                raise ServerUnavailable(
                    f"expected {what}, found {found}", hint=f"look at the logs in {self.folder}"
                )
            time.sleep(0.1)


class S3Server(Server):
    """An S3 gateway over a folder: buckets are its folders, objects their files."""

    _REGION = "us-east-1"
    _KEY, _SECRET = "holdfast", "holdfast-secret"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()

    @property
    def storage(self) -> Mapping[str, str]:
        """What `Pipeline(storage=…)` takes, for obstore and delta-rs alike."""
        return {
            "aws_endpoint": f"http://127.0.0.1:{self._port}",
            "aws_access_key_id": self._KEY,
            "aws_secret_access_key": self._SECRET,
            "aws_region": self._REGION,
            "aws_allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    @property
    def settings(self) -> Mapping[str, str]:
        """What Spark is told, for S3A."""
        s3a = "spark.hadoop.fs.s3a"
        return {
            f"{s3a}.endpoint": f"http://127.0.0.1:{self._port}",
            f"{s3a}.endpoint.region": self._REGION,
            f"{s3a}.path.style.access": "true",
            f"{s3a}.access.key": self._KEY,
            f"{s3a}.secret.key": self._SECRET,
        }

    def bucket(self, name: str) -> str:
        """The URL of a bucket, made if it is not there."""
        (self.folder / "buckets" / name).mkdir(parents=True, exist_ok=True)
        return f"s3://{name}"

    def start(self) -> None:
        """Return when the gateway answers; builds it at the first time on a machine."""
        gateway = built_by_go(S3_GATEWAY)
        (self.folder / "buckets").mkdir(parents=True, exist_ok=True)
        address = f"127.0.0.1:{self._port}"
        keys = {"ROOT_ACCESS_KEY": self._KEY, "ROOT_SECRET_KEY": self._SECRET}
        command = [str(gateway), "--quiet", "--port", address, "--region", self._REGION]
        self._spawn([*command, "posix", str(self.folder / "buckets")], "gateway.log", keys)
        self._wait(f"an S3 gateway on `{address}`", lambda: listens(self._port))


def built_by_go(module: str) -> Path:
    """The program of a Go module; built once into the user's cache."""
    path, _, version = module.partition("@")
    name = path.rpartition("/")[2]
    folder = cache(f"{name}-{version}")
    if (folder / name).is_file():
        return folder / name
    go = shutil.which("go")
    if go is None:
        raise ServerUnavailable(
            f"expected Go to build the server `{module}` with, found none",
            hint="install Go 1.26, or leave out the tests with `-k 'not s3 and not google'`",
        )
    # Go writes the program in one step, so that two builds at once do no harm.
    environment = {**os.environ, "GOBIN": str(folder)}
    done = subprocess.run(
        [go, "install", module], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ServerUnavailable(
            f"expected `go install {module}` to succeed, found: {done.stderr.strip()[-300:]}",
            hint=f"GOBIN={folder} go install {module}",
        )
    return folder / name


def cache(name: str) -> Path:
    """A folder of the user's cache, which need not be there."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "holdfast" / name


_SITE = {
    "fs.defaultFS": "hdfs://127.0.0.1:{port}",
    "dfs.namenode.name.dir": "file://{folder}/names",
    "dfs.datanode.data.dir": "file://{folder}/data",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.hostname": "127.0.0.1",
    "dfs.replication": "1",
}
_JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_SERVERS = "org.apache.hadoop.hdfs.server"


class HdfsServer(Server):
    """A NameNode and one DataNode."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()

    @property
    def url(self) -> str:
        """The root of the file system."""
        return f"hdfs://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Return when a file can be written."""
        self._configure()
        classes = [self.folder / "conf", *jars.fetch("hdfs-server")]
        java = ["java", *_JAVA_OPTIONS, "-cp", os.pathsep.join(str(path) for path in classes)]
        name_node = [*java, f"{_SERVERS}.namenode.NameNode"]
        with (self.folder / "format.log").open("ab") as output:
            subprocess.run(
                [*name_node, "-format", "-nonInteractive"],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
            )
        self._spawn(name_node, "namenode.log", {})
        self._spawn([*java, f"{_SERVERS}.datanode.DataNode"], "datanode.log", {})
        self._wait(f"HDFS on `{self.url}`", self._answers)

    def _configure(self) -> None:
        values = {k: v.format(port=self._port, folder=self.folder) for k, v in _SITE.items()}
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>\n"
            for key, value in values.items()
        )
        (self.folder / "conf").mkdir(parents=True, exist_ok=True)
        site = f"<configuration>\n{properties}</configuration>\n"
        # Hadoop reads both files and does not mind which of them a property is in.
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.folder / "conf" / name).write_text(site)

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            return open_store(self.url).write("started", b"yes")
        except StorageUnavailable:  # there is no DataNode yet
            return False


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback interface."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
