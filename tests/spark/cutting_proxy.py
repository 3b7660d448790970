"""A TCP proxy on the loopback interface that can cut its connections, or go deaf first."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes on to a port, until it is told to cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._swallow = threading.Event()
        self._closed = threading.Event()
        self.port: int = self._server.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection; new ones are taken."""
        self._swallow.clear()
        while self._open:
            one = self._open.pop()
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def swallow_answers(self) -> None:
        """Pass on what clients say, but answer nothing: the next answer ends the connection."""
        self._swallow.set()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            pairs = ((client, server, False), (server, client, True))
            for source, sink, answers in pairs:
                threading.Thread(
                    target=self._pass_on, args=(source, sink, answers), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self._swallow.is_set():
                    self.cut()
                    return
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
