"""The nearest things to Azure and Google that run on the loopback interface.

    with AzureServer(folder) as azure:
        open_store(f"{azure.bucket('lake')}/checkpoints", azure.storage)

Azure is Azurite, Microsoft's own emulator, installed once by `npm` into the user's cache. Google is
fake-gcs-server, built once by `go install`. It reads and deletes as Google does, but takes new
objects by Google's JSON interface only, where obstore sends them by the other one, and lists from
the first name on, whatever `start-after` asks for. `tests/google_front.py`, which stands before it,
mends these two and nothing else.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from urllib.error import HTTPError

from holdfast.errors import ServerUnavailable
from tests.servers import Server, built_by_go, cache, free_port, listens

AZURITE = "azurite@3.37.0"
GOOGLE_SERVER = "github.com/fsouza/fake-gcs-server@v1.56.1"
_FRONT = Path(__file__).with_name("google_front.py")
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
        self._front = free_port()

    @property
    def storage(self) -> Mapping[str, str]:
        """What `Pipeline(storage=…)` takes, for obstore and delta-rs alike."""
        account = {
            "gcs_base_url": f"http://127.0.0.1:{self._front}",
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
        # Not a thread of this process: delta-rs holds Python's lock while it waits for an answer.
        front = [sys.executable, "-P", str(_FRONT), str(self._front), str(self._port)]
        self._spawn(front, "front.log", {})
        self._wait(f"the front on port {self._front}", lambda: listens(self._front))


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
