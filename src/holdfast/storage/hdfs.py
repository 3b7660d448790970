"""Storage on HDFS, through hdfs-native: a client without Java, Hadoop or libhdfs.

    <folder>/.<random>.holdfast-draft    a file that is being written

HDFS shows a file from its first byte on, and a writer that creates a file exclusively may die
before the last byte. So every file is written as a draft, and renamed when it is complete. The
rename is one operation of the NameNode, which refuses a name that is taken unless it may overwrite
it. A killed writer leaves only a draft behind, which `names` does not list.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from holdfast.errors import StorageUnavailable, make_extras_error
from holdfast.storage.objects import make_unavailable_error
from holdfast.storage.reader import PORTION, Children, File, Piece, Refused, refuse_too_long
from holdfast.storage.remote import Forbidden, ListedFile
from holdfast.storage.store import Missing

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader
    from hdfs_native._internal import FileStatus

T = TypeVar("T")

_DRAFT = ".holdfast-draft"
_DENIED = "permission denied"
# The client's default of 15 attempts takes minutes if nothing listens; 3 attempts take 8 seconds.
_DEFAULTS = {"dfs.client.failover.max.attempts": "3"}


def open_folder(url: str, options: Mapping[str, str]) -> "HdfsStorage":
    """Open the folder that an `hdfs:` URL names.

    Options are Hadoop's own settings. Hadoop's files in HADOOP_CONF_DIR are read if they exist;
    a name service of several NameNodes and a URL without a host need them.
    """
    return HdfsStorage(*_connect(url, options), url)


def open_listing(url: str, options: Mapping[str, str]) -> "HdfsListing":
    """Open the folder that an `hdfs:` URL names, for reading only."""
    return HdfsListing(*_connect(url, options), url)


def _connect(url: str, options: Mapping[str, str]) -> "tuple[Client, str]":
    try:
        from hdfs_native import Client  # an extra: most users have no HDFS
    except ModuleNotFoundError as error:
        raise make_extras_error(["hdfs-native"], ["hdfs"]) from error
    parts = urlsplit(url)
    try:
        # Only Hadoop's settings have dots in their names; the others are for object stores.
        settings = {key: value for key, value in options.items() if "." in key}
        host = f"hdfs://{parts.netloc}" if parts.netloc else None
        client = Client(host, {**_DEFAULTS, **settings})
    except (OSError, RuntimeError, ValueError) as error:
        if not parts.netloc and "defaultFS" in str(error):
            raise StorageUnavailable(
                f"neither `{url}` nor Hadoop's own settings specify a NameNode",
                hint="set HADOOP_CONF_DIR to the folder of `core-site.xml`, or write"
                f" `hdfs://namenode:8020{parts.path}`",
            ) from error
        raise make_unavailable_error(url, "", error) from error
    root = url.removeprefix(f"{parts.scheme}://{parts.netloc}").strip("/")
    return client, f"/{root}" if root else ""


class HdfsStorage:
    """A Store on HDFS."""

    def __init__(self, client: "Client", root: str, url: str) -> None:
        self._client = client
        self._root = root
        self._url = url

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """Return the whole content, or its last `last` bytes."""
        missing: bytes | Missing = Missing(path=path)
        return self._ask(
            path, lambda: _read_content(self._client.read(self._at(path)), last), missing
        )

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Write the whole content at once; with `create`, only if the name is free."""
        target = self._at(path)
        draft = f"{target.rpartition('/')[0]}/.{secrets.token_hex(8)}{_DRAFT}"
        try:
            return self._put(draft, target, data, create=create)
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def size(self, path: str) -> int:
        """Return the size of a file that exists, in bytes."""
        try:
            return self._client.get_file_info(self._at(path)).length
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files and folders directly in a folder, sorted."""
        nothing: tuple[str, ...] = ()
        return self._ask(folder, lambda: self._list_names(self._at(folder)), nothing)

    def delete(self, path: str) -> None:
        """Delete one file, if it exists."""
        self._ask(path, lambda: self._client.delete(self._at(path)), absent=False)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _put(self, draft: str, target: str, data: bytes, *, create: bool) -> bool:
        from hdfs_native import WriteOptions  # an extra

        try:
            with self._client.create(draft, WriteOptions(create_parent=True)) as file:
                file.write(data)
            self._client.rename(draft, target, overwrite=not create)
        except BaseException as error:
            with contextlib.suppress(OSError, RuntimeError):
                self._client.delete(draft)
            if create and isinstance(error, FileExistsError):
                return False
            raise
        return True

    def _list_names(self, folder: str) -> tuple[str, ...]:
        paths = (status.path for status in self._client.list_status(folder))
        # If the folder is a file, the NameNode lists the file itself.
        names = (path.rsplit("/", 1)[-1] for path in paths if path != folder)
        return tuple(sorted(name for name in names if not name.endswith(_DRAFT)))

    def _ask(self, path: str, request: Callable[[], T], absent: T) -> T:
        try:
            return request()
        except FileNotFoundError:
            return absent
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def _unavailable(self, path: str, error: Exception) -> StorageUnavailable:
        return _make_unavailable_error(self._url, path, error)


class HdfsListing:
    """HDFS as a RemoteReader reads it."""

    def __init__(self, client: "Client", root: str, url: str) -> None:
        self._client = client
        self._root = root
        self._url = url

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
        at = self._at(folder)
        try:
            entries = [entry for entry in self._client.list_status(at) if entry.path != at]
        except FileNotFoundError:
            return Missing(path=folder)
        except (OSError, RuntimeError) as error:
            return self._refused(folder, error)
        files = sorted(_to_file(entry) for entry in entries if not entry.isdir)
        folders = sorted(entry.path.rsplit("/", 1)[-1] for entry in entries if entry.isdir)
        return Children(files=tuple(files), folders=tuple(folders))

    def list_below(self, folder: str) -> Iterator[Sequence[ListedFile]]:
        """Yield every file below a folder, in pages."""
        at, page = self._at(folder), list[ListedFile]()
        lead = len(self._at("").rstrip("/")) + 1
        try:
            for entry in self._client.list_status(at, recursive=True):
                if not entry.isdir:
                    page.append((entry.path[lead:], entry.length, entry.modification_time))
                if len(page) >= PORTION:
                    yield page
                    page = []
        except FileNotFoundError:
            return  # the folder was deleted after its parent was listed
        except (OSError, RuntimeError) as error:
            if _is_forbidden(error):
                raise Forbidden(_DENIED) from error
            raise _make_unavailable_error(self._url, folder, error) from error
        yield page

    def read_piece(self, piece: Piece) -> bytes | Missing | Refused:
        """Return a piece of a file."""
        try:
            file = self._client.read(self._at(piece.path))
            if len(file) > piece.most and not piece.last:
                return refuse_too_long(piece, len(file))
            return _read_content(file, piece.most)
        except FileNotFoundError:
            return Missing(path=piece.path)
        except (OSError, RuntimeError) as error:
            reason = _DENIED if _is_forbidden(error) else _get_message(error)
            return Refused(path=piece.path, reason=reason, forbidden=_is_forbidden(error))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _refused(self, folder: str, error: Exception) -> Refused:
        if _is_forbidden(error):
            return Refused(path=folder, reason=_DENIED, forbidden=True)
        raise _make_unavailable_error(self._url, folder, error) from error


def _to_file(status: "FileStatus") -> File:
    return File(status.path.rsplit("/", 1)[-1], status.length, status.modification_time)


def _is_forbidden(error: Exception) -> bool:
    return "AccessControlException" in str(error)


def _get_message(error: Exception) -> str:
    """Return the message of the NameNode without the Java stack trace that follows it."""
    return str(error).split("\\n", 1)[0]


def _make_unavailable_error(url: str, path: str, error: Exception) -> StorageUnavailable:
    return make_unavailable_error(url, path, OSError(_get_message(error)))


def _read_content(file: "FileReader", last: int | None) -> bytes:
    size = len(file)
    length = size if last is None else min(size, last)
    return file.read_range(size - length, length) if length else b""
