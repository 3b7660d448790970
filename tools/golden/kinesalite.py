"""A server that speaks Kinesis, on the loopback interface: kinesalite, installed with npm.

AWS has no such server for download. The scenarios examine only what the connector writes, which
does not depend on the server.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.golden.sparks import REPOSITORY

_VERSION = "3.3.3"
_SERVE = "require('kinesalite')({createStreamMs: 50}).listen(Number(process.argv[1]), '127.0.0.1')"
_WITHIN_S = 30


@contextmanager
def serve() -> Iterator[str]:
    """Start a server without streams, yield its address, and stop it at the end of the block."""
    folder = REPOSITORY / ".golden" / "kinesalite"
    if not (folder / "node_modules" / "kinesalite").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"kinesalite@{_VERSION}"
        subprocess.run(  # noqa: S603 - the command is built here
            ["npm", "install", "--silent", "--prefix", str(folder), wanted],  # noqa: S607
            check=True,
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = subprocess.Popen(  # noqa: S603
        ["node", "-e", _SERVE, str(port)],  # noqa: S607
        cwd=folder,
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    limit = time.monotonic() + _WITHIN_S
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"kinesalite did not answer within {_WITHIN_S} s")
