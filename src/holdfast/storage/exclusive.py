"""Create a file that must not exist yet. Leases and Delta commits depend on this.

`create` recognises its own file. A server can carry out a put and lose the answer. The client then
tries again, and the server refuses, because the file already exists. So the content must be unique
to the call: a file with exactly that content is the caller's own.

`require` tests once per process and bucket whether a store refuses to create a file twice. Some S3
servers ignore `If-None-Match` and overwrite; others do not know it and refuse every such put. On
these servers two drivers could get the same lease, and two writers could make the same Delta
commit.
"""

import contextlib
import secrets
import threading
from collections.abc import Mapping

from holdfast.errors import CreateNotExclusive, StorageUnavailable
from holdfast.storage import urls
from holdfast.storage.store import Store

_PROBE = ".holdfast-probe-"
# Parts of the messages for a put that the server, or an option of the client, does not support.
_UNSUPPORTED = ("answered with `501", "(`NotImplemented`)", "not yet implemented")

_proved: set[int] = set()
_guard = threading.Lock()


def create(store: Store, path: str, data: bytes) -> bool:
    """Create a file with content that no other caller writes; return False if the name is taken."""
    try:
        if store.write(path, data, create=True):
            return True
    except StorageUnavailable:
        with contextlib.suppress(StorageUnavailable):
            if store.read(path) == data:
                return True
        raise
    return store.read(path) == data


def require(url: str, options: Mapping[str, str], store: Store) -> None:
    """Raise CreateNotExclusive if a file can be created twice; test each bucket once."""
    if urls.is_local(url) or urls.is_hdfs(url):
        return  # the kernel refuses a link, and the NameNode a rename, to a name that is taken
    key = hash((urls.get_bucket(url), tuple(sorted(options.items()))))
    with _guard:
        if key not in _proved:
            _probe(url, store)
            _proved.add(key)


def _probe(url: str, store: Store) -> None:
    path = f"{_PROBE}{secrets.token_hex(8)}"
    try:
        # The answer to the first put does not matter: the client may have lost it and tried again.
        store.write(path, b"1", create=True)
        refused = not store.write(path, b"2", create=True)
    except StorageUnavailable as error:
        if not any(words in str(error) for words in _UNSUPPORTED):
            raise
        raise _make_unsafe_error(url, "refuses conditional uploads (`If-None-Match: *`)") from error
    finally:
        with contextlib.suppress(StorageUnavailable):
            store.delete(path)
    if not refused:
        raise _make_unsafe_error(url, "ignores `If-None-Match: *` and overwrites the file")


def _make_unsafe_error(url: str, defect: str) -> CreateNotExclusive:
    return CreateNotExclusive(
        f"the storage of `{url}` cannot create a file exclusively: the server {defect}. Two drivers"
        " could get the same lease, and two writers could make the same Delta commit",
        hint="upgrade the server to one that supports conditional writes, remove"
        " `aws_conditional_put` from the storage options if it is set, or keep checkpoints and"
        " tables on different storage",
    )
