"""Creating a name that must be free: what a lease and a Delta commit stand on.

`create` recognises its own file. A server can carry out a put and lose the answer; the client
then tries again, and is refused because of the file that it has created itself. So the content
has to be unique to the call, and a file with exactly that content is the caller's own.

`require` asks a store once per process whether it refuses to create a name twice. Some S3 servers
ignore `If-None-Match` and overwrite; others do not know it and refuse every such put. On them two
drivers get the same lease, and two writers the same Delta commit.
"""

import contextlib
import secrets
import threading
from collections.abc import Mapping

from holdfast.errors import CreateNotExclusive, StorageUnavailable
from holdfast.storage import urls
from holdfast.storage.store import Store

_PROBE = ".holdfast-probe-"
# What clients say of a put that the server, or an option of the client, does not support.
_UNSUPPORTED = ("answered with `501", "(`NotImplemented`)", "not yet implemented")

_proved: set[int] = set()
_guard = threading.Lock()


def create(store: Store, path: str, data: bytes) -> bool:
    """Create a file with content that no other caller writes; False if another has the name."""
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
    """Raise CreateNotExclusive where a name can be created twice; asks each bucket once."""
    if urls.is_local(url) or urls.is_hdfs(url):
        return  # the kernel and the NameNode refuse a link or a rename to a name that is taken
    key = hash((urls.get_bucket(url), tuple(sorted(options.items()))))
    with _guard:
        if key not in _proved:
            _probe(url, store)
            _proved.add(key)


def _probe(url: str, store: Store) -> None:
    path = f"{_PROBE}{secrets.token_hex(8)}"
    try:
        # The answer to the first put does not matter: it may have been lost and tried again.
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
        f"expected the storage of `{url}` to refuse the creation of a file that exists, found that"
        f" the server {defect}: two drivers could hold one lease, and two writers could make one"
        " Delta commit",
        hint="upgrade the server to one that supports conditional writes, remove"
        " `aws_conditional_put` from the storage options if it is set, or keep checkpoints and"
        " tables elsewhere",
    )
