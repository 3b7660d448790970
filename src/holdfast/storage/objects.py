"""Storage on local disk, S3, Google, Azure and memory, all through obstore.

On local disk, a conditional create is a hard link to a complete file, so that a reader never sees
half of it. On object stores, it is a conditional put.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

import obstore
from arro3.core import DataType
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, from_url

from holdfast.errors import StorageUnavailable
from holdfast.storage import refusals, urls
from holdfast.storage.reader import Children, File, Piece, Refused, refuse_too_long
from holdfast.storage.remote import Forbidden, ListedFile
from holdfast.storage.store import Missing

if TYPE_CHECKING:
    from obstore import ObjectMeta

T = TypeVar("T")

_VENDORS = ("aws_", "azure_", "google_")
_AZURE = dict.fromkeys(("abfs", "abfss", "adl", "az", "azure"), "azure_")
_VENDOR_OF = {"s3": "aws_", "gs": "google_", **_AZURE}
_ACCOUNT = frozenset({"azure_storage_account_name", "account_name"})
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
_DELTA_ONLY = frozenset(
    {
        "aws_s3_allow_unsafe_rename",
        "aws_s3_locking_provider",
        "delta_dynamo_table_name",
        "max_retries",
        "object_store_concurrency_limit",
        "retry_timeout",
    }
)


def open_folder(url: str, options: Mapping[str, str]) -> "ObjectStorage":
    """Open the folder that a path or URL names; create it if it is local and does not exist."""
    try:
        if url.startswith("memory:"):
            return ObjectStorage(MemoryStore(), url)
        if urls.is_local(url):
            folder = urls.to_local_path(url)
            return ObjectStorage(LocalStore(folder, mkdir=True, automatic_cleanup=True), url)
        return ObjectStorage(_open_bucket(url, options), url)
    except (BaseError, OSError, ValueError) as error:
        raise make_unavailable_error(url, "", error) from error


def open_listing(url: str, options: Mapping[str, str]) -> "ObjectListing":
    """Open the folder of an object store that a URL names, for reading only."""
    try:
        return ObjectListing(_open_bucket(url, options), url)
    except (BaseError, OSError, ValueError) as error:
        raise make_unavailable_error(url, "", error) from error


def _open_bucket(url: str, options: Mapping[str, str]) -> ObjectStore:
    place = urls.to_rust_url(url)
    store, client = _split_options(place, options)
    backend: ObjectStore = from_url(place, client_options=client, **store)  # type: ignore[call-overload]
    return backend


def _split_options(url: str, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options that are written for delta-rs into those of obstore's store and HTTP client.

    delta-rs takes both in one mapping and ignores unknown keys. obstore takes two mappings and
    refuses unknown keys, which reveals a misspelt key. So keys that are meant for others are left
    out: keys of other vendors, of delta-rs itself, and of Hadoop, which have dots. The account of
    Azure is left out if the URL names it, because obstore would see a contradiction.
    """
    store: dict[str, str] = {}
    client: dict[str, str] = {}
    own = _VENDOR_OF.get(urls.get_scheme(url), "")
    others = tuple(vendor for vendor in _VENDORS if vendor != own)
    ignored = _DELTA_ONLY | (_ACCOUNT if "@" in urlsplit(url).netloc else frozenset())
    for key, value in ((name.lower(), value) for name, value in options.items()):
        bare = key.removeprefix(own)
        if key in ignored or "." in key or key.startswith(others):
            continue
        if bare in _CLIENT_OPTIONS:
            client[bare] = value
        else:
            store[key] = value
    return store, client


class ObjectStorage:
    """A Store on any storage that obstore opens."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self.backend = store
        self._url = url

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """Return the whole content, or its last `last` bytes."""
        try:
            if last is None:
                return bytes(obstore.get(self.backend, path).bytes())
            size = obstore.head(self.backend, path)["size"]
            start = max(0, size - last)
            if start == size:
                return b""
            return bytes(obstore.get_range(self.backend, path, start=start, end=size))
        except FileNotFoundError:
            return Missing(path=path)
        except (BaseError, OSError) as error:
            raise make_unavailable_error(self._url, path, error) from error

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Write the whole content at once; with `create`, only if the name is free."""
        mode: Literal["create", "overwrite"] = "create" if create else "overwrite"
        try:
            obstore.put(self.backend, path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError):
            return False
        except (BaseError, OSError, NotImplementedError) as error:
            # obstore raises NotImplementedError if an option switches conditional puts off.
            raise make_unavailable_error(self._url, path, error) from error
        return True

    def size(self, path: str) -> int:
        """Return the size of a file that exists, in bytes."""
        try:
            return obstore.head(self.backend, path)["size"]
        except (BaseError, OSError) as error:
            raise make_unavailable_error(self._url, path, error) from error

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files and folders directly in a folder, sorted."""
        nothing: tuple[str, ...] = ()
        return tuple(sorted(self._ask(folder, lambda: self._list_names(folder), nothing)))

    def delete(self, path: str) -> None:
        """Delete one file, if it exists."""
        self._ask(path, lambda: obstore.delete(self.backend, path), None)

    def _list_names(self, folder: str) -> tuple[str, ...]:
        listing = obstore.list_with_delimiter(self.backend, folder or None)
        paths = [meta["path"] for meta in listing["objects"]] + list(listing["common_prefixes"])
        # Hadoop marks a folder on S3 with an empty object, which S3 lists among the contents.
        inside = (path.strip("/") for path in paths if path.strip("/") not in ("", folder))
        return tuple(path.rsplit("/", 1)[-1] for path in inside)

    def _ask(self, path: str, request: Callable[[], T], absent: T) -> T:
        try:
            return request()
        except FileNotFoundError:
            return absent
        except (BaseError, OSError) as error:
            raise make_unavailable_error(self._url, path, error) from error


class ObjectListing:
    """Any storage that obstore opens, as a RemoteReader reads it."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._backend = store
        self._url = url

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder; an empty folder is missing."""
        try:
            listing = obstore.list_with_delimiter(self._backend, folder or None)
        except (BaseError, OSError) as error:
            if refusals.is_forbidden(error):
                return Refused(path=folder, reason=refusals.explain(error), forbidden=True)
            raise make_unavailable_error(self._url, folder, error) from error
        folders = {path.strip("/").rsplit("/", 1)[-1] for path in listing["common_prefixes"]}
        files = [_to_file(meta) for meta in listing["objects"] if meta["path"].strip("/") != folder]
        own = tuple(file for file in files if file.name not in folders)
        if not own and not folders and not listing["objects"]:
            return Missing(path=folder)
        return Children(files=tuple(sorted(own)), folders=tuple(sorted(folders)))

    def list_below(self, folder: str) -> Iterator[Sequence[ListedFile]]:
        """Yield every file below a folder, in the pages of the server."""
        try:
            pages = obstore.list(self._backend, folder or None, chunk_size=1000, return_arrow=True)
            for page in pages:
                times = page.column("last_modified").cast(DataType.int64()).to_pylist()
                yield list(
                    zip(
                        page.column("path").to_pylist(),
                        page.column("size").to_pylist(),
                        [time // 1000 for time in times],
                        strict=True,
                    )
                )
        except (BaseError, OSError) as error:
            if refusals.is_forbidden(error):
                raise Forbidden(refusals.explain(error)) from error
            raise make_unavailable_error(self._url, folder, error) from error

    def read_piece(self, piece: Piece) -> bytes | Missing | Refused:
        """Return a piece of a file; only the end of a long file takes two requests."""
        try:
            if not piece.most:
                obstore.head(self._backend, piece.path)
                return b""
            response = obstore.get(self._backend, piece.path)
            size = response.meta["size"]
            if size <= piece.most:
                return bytes(response.bytes())
            if not piece.last:
                return refuse_too_long(piece, size)
            part = obstore.get_range(self._backend, piece.path, start=size - piece.most, end=size)
            return bytes(part)
        except FileNotFoundError:
            return Missing(path=piece.path)
        except (BaseError, OSError) as error:
            return Refused(
                path=piece.path,
                reason=refusals.explain(error),
                forbidden=refusals.is_forbidden(error),
            )


def _to_file(meta: "ObjectMeta") -> File:
    modified_ms = round(meta["last_modified"].timestamp() * 1000)
    return File(meta["path"].rsplit("/", 1)[-1], meta["size"], modified_ms)


def make_unavailable_error(url: str, path: str, error: Exception) -> StorageUnavailable:
    """Return an error with the answer of the storage in one sentence."""
    place = f"{url}/{path}" if path else url
    return StorageUnavailable(
        f"cannot use the storage `{place}`: {refusals.explain(error)}",
        hint=refusals.make_hint(url, error),
    )
