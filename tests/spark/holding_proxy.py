"""An HTTP proxy on the loopback interface that keeps an upload back, and sends it on much later."""

import contextlib
import re
import socket
import threading

from tests.spark.cutting_proxy import CuttingProxy

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)


class HoldingProxy(CuttingProxy):
    """Keeps back the upload whose path ends as given, as a network does that is slow for one."""

    def __init__(self, target: int, ending: str) -> None:
        super().__init__(target)
        self._target_port = target
        self._ending = ending
        self._request = b""
        self.held = threading.Event()

    def release(self) -> bytes:
        """Let the upload arrive, whoever sent it; the server's answer."""
        with socket.create_connection(("127.0.0.1", self._target_port)) as server:
            server.sendall(self._request)
            answer = b""
            while b"HTTP/1.1 2" not in answer and b"HTTP/1.1 4" not in answer:
                part = server.recv(1 << 16)
                assert part, answer
                answer += part
        return answer

    def _pass_on(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                path = data.split(b" ", 2)[1].decode() if data.startswith(b"PUT ") else ""
                if not answers and path.partition("?")[0].endswith(self._ending):
                    self._hold(source, data)
                    return
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _hold(self, source: socket.socket, data: bytes) -> None:
        """Take the whole request, and answer nothing."""
        while b"\r\n\r\n" not in data:
            data += source.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        assert length is not None, head
        if _EXPECTS.search(head):
            source.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(body) < int(length[1]):
            body += source.recv(1 << 16)
        self._request = head + b"\r\n\r\n" + body
        self.held.set()
        while source.recv(1 << 16):
            pass
