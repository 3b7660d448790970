"""Storage on HDFS, through hdfs-native: a client without Java, Hadoop or libhdfs.

    <folder>/.<random>.holdfast-draft    a file that is being written

HDFS shows a file from its first byte on, and gives an exclusively created name to a writer that
may die before the last one. So every file is written under a draft's name, and renamed when it is
whole: one operation of the NameNode, which refuses a name that is taken unless it is told to
replace it. What a killed writer leaves is a draft, which `names` does not show.
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
# The client's own 15 attempts take many minutes to say that nobody listens; these take 8 seconds.
_DEFAULTS = {"dfs.client.failover.max.attempts": "3"}


def open_folder(url: str, options: Mapping[str, str]) -> "HdfsStorage":
    """The folder that an `hdfs:` URL names.

    Options are Hadoop's own settings; Hadoop's files in HADOOP_CONF_DIR are read where there are
    any, as for a name service of several NameNodes or for a URL that names no host.
    """
    return HdfsStorage(*_connect(url, options), url)


def open_listing(url: str, options: Mapping[str, str]) -> "HdfsListing":
    """The folder that an `hdfs:` URL names, to be looked at."""
    return HdfsListing(*_connect(url, options), url)


def _connect(url: str, options: Mapping[str, str]) -> "tuple[Client, str]":
    try:
        from hdfs_native import Client  # an extra: most users have no HDFS
    except ModuleNotFoundError as error:
        raise make_extras_error(["hdfs-native"], ["hdfs"]) from error
    parts = urlsplit(url)
    try:
        # Settings of Hadoop have dots in their names; others are for other vendors' storage.
        given = {key: value for key, value in options.items() if "." in key}
        host = f"hdfs://{parts.netloc}" if parts.netloc else None
        client = Client(host, {**_DEFAULTS, **given})
    except (OSError, RuntimeError, ValueError) as error:
        if not parts.netloc and "defaultFS" in str(error):
            raise StorageUnavailable(
                f"expected a NameNode in `{url}` or in Hadoop's own settings, found none in either",
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
        """The whole content, or its last so many bytes."""
        missing: bytes | Missing = Missing(path=path)
        return self._answered(
            path, lambda: _read_content(self._client.read(self._at(path)), last), missing
        )

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Put the content whole; with `create`, only if the name is free."""
        target = self._at(path)
        draft = f"{target.rpartition('/')[0]}/.{secrets.token_hex(8)}{_DRAFT}"
        try:
            return self._put(draft, target, data, create=create)
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def size(self, path: str) -> int:
        """How many bytes a file has that is there."""
        try:
            return self._client.get_file_info(self._at(path)).length
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of files and folders directly in a folder, sorted."""
        nothing: tuple[str, ...] = ()
        return self._answered(folder, lambda: self._listed(self._at(folder)), nothing)

    def delete(self, path: str) -> None:
        """Remove one file; nothing happens if there is none."""
        self._answered(path, lambda: self._client.delete(self._at(path)), absent=False)

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

    def _listed(self, folder: str) -> tuple[str, ...]:
        paths = (status.path for status in self._client.list_status(folder))
        # The status of a file that was asked for as a folder is the file's own.
        names = (path.rsplit("/", 1)[-1] for path in paths if path != folder)
        return tuple(sorted(name for name in names if not name.endswith(_DRAFT)))

    def _answered(self, path: str, ask: Callable[[], T], absent: T) -> T:
        try:
            return ask()
        except FileNotFoundError:
            return absent
        except (OSError, RuntimeError) as error:
            raise self._unavailable(path, error) from error

    def _unavailable(self, path: str, error: Exception) -> StorageUnavailable:
        return _make_unavailable_error(self._url, path, error)


class HdfsListing:
    """What a RemoteReader asks of HDFS."""

    def __init__(self, client: "Client", root: str, url: str) -> None:
        self._client = client
        self._root = root
        self._url = url

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        at = self._at(folder)
        try:
            found = [one for one in self._client.list_status(at) if one.path != at]
        except FileNotFoundError:
            return Missing(path=folder)
        except (OSError, RuntimeError) as error:
            return self._refused(folder, error)
        files = sorted(_to_file(one) for one in found if not one.isdir)
        folders = sorted(one.path.rsplit("/", 1)[-1] for one in found if one.isdir)
        return Children(files=tuple(files), folders=tuple(folders))

    def below(self, folder: str) -> Iterator[Sequence[ListedFile]]:
        """Every file below a folder; HDFS pages by itself."""
        at, page = self._at(folder), list[ListedFile]()
        lead = len(self._at("").rstrip("/")) + 1
        try:
            for one in self._client.list_status(at, recursive=True):
                if not one.isdir:
                    page.append((one.path[lead:], one.length, one.modification_time))
                if len(page) >= PORTION:
                    yield page
                    page = []
        except FileNotFoundError:
            return  # it went while the folder above was read
        except (OSError, RuntimeError) as error:
            if _is_forbidden(error):
                raise Forbidden(_DENIED) from error
            raise _make_unavailable_error(self._url, folder, error) from error
        yield page

    def piece(self, piece: Piece) -> bytes | Missing | Refused:
        """What is wanted of a file."""
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
    """What the NameNode refuses is a RuntimeError whose text goes on with a Java stack trace."""
    return str(error).split("\\n", 1)[0]


def _make_unavailable_error(url: str, path: str, error: Exception) -> StorageUnavailable:
    return make_unavailable_error(url, path, OSError(_get_message(error)))


def _read_content(file: "FileReader", last: int | None) -> bytes:
    size = len(file)
    wanted = size if last is None else min(size, last)
    return file.read_range(size - wanted, wanted) if wanted else b""
