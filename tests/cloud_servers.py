"""The nearest things to Azure and Google that run on the loopback interface.

    with AzureServer(folder) as azure:
        open_store(f"{azure.bucket('lake')}/checkpoints", azure.storage)

Azure is Azurite, Microsoft's own emulator, installed once by `npm` into the user's cache. Google is
fake-gcs-server, built once by `go install`. It lists, reads and deletes as Google does, but takes
new objects by Google's JSON interface only, and obstore sends them by the other one; so a front
that stands before it spells these requests anew (`_Front`), and nothing else.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError
from urllib.parse import quote, unquote

from holdfast.errors import ServerUnavailable
from tests.servers import Server, built_by_go, cache, free_port, listens

AZURITE = "azurite@3.37.0"
GOOGLE_SERVER = "github.com/fsouza/fake-gcs-server@v1.56.1"
_METHOD = re.compile(r"\b(DELETE|GET|HEAD|PATCH|POST|PUT) /")


class CloudServer(Server):
    """A server that writes every request into its log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()

    @property
    def methods(self) -> list[str]:
        """The method of every request so far."""
        return _METHOD.findall((self.folder / "server.log").read_text("utf-8"))


class AzureServer(CloudServer):
    """Azurite, with one account of its own key."""

    _ACCOUNT = "lake"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._key = secrets.token_bytes(32)

    @property
    def storage(self) -> Mapping[str, str]:
        """What `Pipeline(storage=…)` takes, for obstore and delta-rs alike."""
        return {
            "azure_endpoint": self._endpoint,
            "azure_storage_account_name": self._ACCOUNT,
            "azure_storage_account_key": base64.b64encode(self._key).decode(),
            "azure_allow_http": "true",
        }

    def bucket(self, name: str) -> str:
        """The URL of a container, made if it is not there."""
        stamp = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        headers = [f"{key}:{value}" for key, value in stamp.items()]
        resource = f"/{self._ACCOUNT}/{self._ACCOUNT}/{name}"
        signed = "\n".join(["PUT", *[""] * 11, *headers, resource, "restype:container"])
        digest = hmac.digest(self._key, signed.encode(), hashlib.sha256)
        signature = f"SharedKey {self._ACCOUNT}:{base64.b64encode(digest).decode()}"
        made = urllib.request.Request(
            f"{self._endpoint}/{name}?restype=container",
            method="PUT",
            headers={**stamp, "Authorization": signature},
        )
        _unless_there(made)
        return f"abfss://{name}@{self._ACCOUNT}.dfs.core.windows.net"

    def start(self) -> None:
        """Return when the emulator answers; installs it at the first time on a machine."""
        program = azurite()
        account = f"{self._ACCOUNT}:{base64.b64encode(self._key).decode()}"
        command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(self._port)]
        options = ["--location", str(self.folder / "blobs"), "--disableTelemetry"]
        self._spawn([*command, *options], "server.log", {"AZURITE_ACCOUNTS": account})
        self._wait(f"Azurite on port {self._port}", lambda: listens(self._port))

    @property
    def _endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}/{self._ACCOUNT}"


class GoogleServer(CloudServer):
    """fake-gcs-server in memory, and the front before it. It asks nobody for keys."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._front = _Front(self._port)

    @property
    def storage(self) -> Mapping[str, str]:
        """What `Pipeline(storage=…)` takes, for obstore and delta-rs alike."""
        account = {
            "gcs_base_url": f"http://127.0.0.1:{self._front.server_port}",
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"google_service_account_key": json.dumps(account), "google_allow_http": "true"}

    def bucket(self, name: str) -> str:
        """The URL of a bucket, made if it is not there."""
        made = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/storage/v1/b?project=p",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        _unless_there(made)
        return f"gs://{name}"

    def start(self) -> None:
        """Return when the emulator answers; builds it at the first time on a machine."""
        program = str(built_by_go(GOOGLE_SERVER))
        # It looks at the host of a request to know that the bucket is in the path.
        address = ["-host", "127.0.0.1", "-port", str(self._port), "-public-host", "127.0.0.1"]
        options = ["-scheme", "http", "-backend", "memory"]
        self._spawn([program, *address, *options], "server.log", {})
        self._wait(f"fake-gcs-server on port {self._port}", lambda: listens(self._port))
        threading.Thread(target=self._front.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End the front, then the emulator."""
        self._front.shutdown()
        self._front.server_close()
        super().stop()


class _Passing(BaseHTTPRequestHandler):
    """Hands requests on as they are, but for the one that puts an object."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind: ClassVar[int]

    def do_GET(self) -> None:
        self._pass(self.command, self.path)

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

    def _pass(self, method: str, path: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        behind = HTTPConnection("127.0.0.1", self.behind)
        behind.request(method, path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answer.read()
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


class _Front(ThreadingHTTPServer):
    """Spells `PUT bucket/object` as the upload that the emulator knows."""

    daemon_threads = True

    def __init__(self, behind: int) -> None:
        handler = type("_PassingTo", (_Passing,), {"behind": behind})
        super().__init__(("127.0.0.1", 0), handler)


def azurite() -> Path:
    """Azurite's program; installed once, by npm, into the user's cache."""
    folder = cache(AZURITE.replace("@", "-"))
    program = Path("node_modules/azurite/dist/src/blob/main.js")
    if (folder / program).is_file():
        return folder / program
    npm = shutil.which("npm")
    if npm is None:
        raise ServerUnavailable(
            f"expected npm to install `{AZURITE}` with, found none",
            hint="install Node.js 20 or later, or leave out the tests with `-k 'not azure'`",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    quietly = ["--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        [npm, "install", *quietly, "--prefix", str(draft), AZURITE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(draft)
        raise ServerUnavailable(
            f"expected `npm install {AZURITE}` to succeed, found: {done.stderr.strip()[-300:]}",
            hint=f"npm install --prefix {folder} {AZURITE}",
        )
    draft.rename(folder)  # in one step, so that nobody sees half of it
    return folder / program


def _unless_there(made: urllib.request.Request) -> None:
    try:
        urllib.request.urlopen(made).close()
    except HTTPError as error:
        error.close()
        if error.code != 409:
            raise
