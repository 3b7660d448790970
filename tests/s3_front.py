"""What stands before an S3 server and makes it fail in one way, for the requests that it is told.

    with S3Front(s3, Fault.LOSE_ANSWER, r"PUT .*/lease/") as front:
        open_store(url, front.storage)

It is a process of its own: delta-rs keeps Python's lock while it waits for an answer.

    python -m tests.s3_front PORT BEHIND BUCKETS FAULT REQUESTS TIMES
"""

import contextlib
import enum
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self
from urllib.parse import unquote

from tests.servers import S3Server, free_port, listens

_UNKNOWN = b"<Error><Code>NotImplemented</Code><Message>no conditions</Message></Error>"
_CONTROL = "/front-control/"


class Fault(enum.Enum):
    """What goes wrong with a request that is matched."""

    LOSE_ANSWER = "it is carried out, and the connection is cut before the answer"
    OVERWRITE = "`If-None-Match` is ignored: an object that exists is overwritten"
    NOT_IMPLEMENTED = "`If-None-Match` is answered with 501"


class S3Front:
    """A server on the loopback interface before a real S3 server, as long as the `with` block."""

    def __init__(self, s3: S3Server, fault: Fault, requests: str, times: int = 1) -> None:
        self._s3 = s3
        self._port = free_port()
        behind = s3.storage["aws_endpoint"].rpartition(":")[2]
        buckets = s3.folder / "buckets"
        given = [str(self._port), behind, str(buckets), fault.name, requests, str(times)]
        self._command = [sys.executable, "-m", "tests.s3_front", *given]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def storage(self) -> Mapping[str, str]:
        """What `Pipeline(storage=…)` takes, to go through here."""
        return {**self._s3.storage, "aws_endpoint": f"http://127.0.0.1:{self._port}"}

    @property
    def hit(self) -> list[str]:
        """The requests that the fault struck."""
        return self._asked("hit")

    @property
    def seen(self) -> list[str]:
        """All requests."""
        return self._asked("seen")

    def strike_again(self) -> None:
        """Let the fault strike one more request."""
        self._asked("again")

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command)
        deadline = time.monotonic() + 60
        while not listens(self._port):
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def _asked(self, what: str) -> list[str]:
        asking = HTTPConnection("127.0.0.1", self._port, timeout=30)
        asking.request("GET", f"{_CONTROL}{what}")
        found: list[str] = json.loads(asking.getresponse().read())
        asking.close()
        return found


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind: ClassVar[int]
    buckets: ClassVar[Path]
    fault: ClassVar[Fault]
    requests: ClassVar[re.Pattern[str]]
    left: ClassVar[int]
    hit: ClassVar[list[str]] = []
    seen: ClassVar[list[str]] = []
    guard: ClassVar[threading.Lock] = threading.Lock()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(_CONTROL):
            self._control(self.path.removeprefix(_CONTROL))
            return
        struck = self._strikes(f"{self.command} {unquote(self.path)}")
        conditional = self.headers.get("If-None-Match") is not None
        if struck and conditional and self.fault is Fault.NOT_IMPLEMENTED:
            self._answer(501, {}, _UNKNOWN)
            return
        if struck and conditional and self.fault is Fault.OVERWRITE:
            # The header is signed, so it cannot be taken out; the object can.
            name = unquote(self.path).partition("?")[0].removeprefix("/")
            (self.buckets / name).unlink(missing_ok=True)
        behind = HTTPConnection("127.0.0.1", self.behind)
        behind.request(self.command, self.path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if struck and self.fault is Fault.LOSE_ANSWER:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(answer.status, dict(answer.getheaders()), content)

    do_HEAD = do_DELETE = do_PUT = do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The server behind has a log of its own."""

    def _strikes(self, request: str) -> bool:
        kind = type(self)
        with self.guard:
            self.seen.append(request)
            if kind.left <= 0 or not self.requests.search(request):
                return False
            kind.left -= 1
            self.hit.append(request)
            return True

    def _control(self, what: str) -> None:
        with self.guard:
            if what == "again":
                type(self).left += 1
            told = self.seen if what == "seen" else self.hit
            self._answer(200, {}, json.dumps(told).encode())

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        kept = {key.lower(): value for key, value in headers.items()}
        for key in ("connection", "transfer-encoding", "date", "server"):
            kept.pop(key, None)
        if self.command != "HEAD":
            kept["content-length"] = str(len(content))
        for key, value in kept.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def main() -> None:
    """Stand on a port before another."""
    port, behind, buckets, fault, requests, times = sys.argv[1:]
    told = {
        "behind": int(behind),
        "buckets": Path(buckets),
        "fault": Fault[fault],
        "requests": re.compile(requests),
        "left": int(times),
    }
    ThreadingHTTPServer(
        ("127.0.0.1", int(port)), type("_PassingTo", (_Passing,), told)
    ).serve_forever()


if __name__ == "__main__":
    main()
