"""What stands before fake-gcs-server, so that obstore and delta-rs take it for Google.

    python tests/google_front.py PORT BEHIND

It spells `PUT bucket/object` as the upload that the emulator knows, and leaves out of a listing
what is not after the name that was asked for.
"""

import html
import json
import re
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit


class _Passing(BaseHTTPRequestHandler):
    """Hands requests on as they are, but for those that put an object or list from a name on."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind: ClassVar[int]

    def do_GET(self) -> None:
        # It takes `start-after`, and lists what is before it all the same.
        asked = parse_qs(urlsplit(self.path).query).get("start-after", [""])[0].encode()
        self._pass(self.command, self.path, lambda page: _after(asked, page) if asked else page)

    do_HEAD = do_DELETE = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        bucket, _, name = self.path.removeprefix("/").partition("/")
        if "?" in name:  # a part of a large object, which the emulator does not take at all
            self.send_error(501)
            return
        match = self.headers.get("x-goog-if-generation-match")
        only = f"&ifGenerationMatch={match}" if match is not None else ""
        named = quote(unquote(name), safe="")
        self._pass("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={named}{only}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The emulator has a log of its own."""

    def _pass(
        self, method: str, path: str, answered: Callable[[bytes], bytes] = lambda page: page
    ) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        behind = HTTPConnection("127.0.0.1", self.behind)
        behind.request(method, path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answered(answer.read())
        self.send_response(answer.status)
        kept = {key.lower(): value for key, value in answer.getheaders()}
        for key in ("connection", "transfer-encoding"):
            kept.pop(key, None)
        if self.command == "PUT" and answer.status == 200:
            stored = json.loads(content)
            kept |= {"etag": stored["etag"], "x-goog-generation": stored["generation"]}
        if self.command != "HEAD":
            kept["content-length"] = str(len(content))
        for key, value in kept.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)
        behind.close()


def _after(name: bytes, page: bytes) -> bytes:
    def listed(entry: re.Match[bytes]) -> bytes:
        return entry[0] if html.unescape(entry[1].decode()).encode() > name else b""

    return re.sub(rb"<Contents>.*?<Key>(.*?)</Key>.*?</Contents>", listed, page, flags=re.DOTALL)


def main() -> None:
    """Stand on a port before another."""
    port, behind = map(int, sys.argv[1:])
    handler = type("_PassingTo", (_Passing,), {"behind": behind})
    ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main()
