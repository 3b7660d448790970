"""An HTTP proxy on the loopback interface that refuses some uploads, and passes on the rest."""

import contextlib
import socket

from tests.spark.cutting_proxy import CuttingProxy

_SAID = b"<Error><Code>AccessDenied</Code><Message>refused by the test</Message></Error>"
_ANSWER = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SAID), _SAID)
)


class RefusingProxy(CuttingProxy):
    """Refuses each upload whose path ends as told, as a store does whose rules have changed."""

    def __init__(self, target: int, endings: tuple[str, ...]) -> None:
        super().__init__(target)
        self._endings = endings
        self.refused: list[str] = []

    def _pass_on(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # S3A sends the head of an upload alone, and waits until the server wants the rest.
                path = data.split(b" ", 2)[1].decode() if data.startswith(b"PUT ") else ""
                if not answers and path.partition("?")[0].endswith(self._endings):
                    self.refused.append(path)
                    source.sendall(_ANSWER)
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_WR)
