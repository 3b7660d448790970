"""Storage on local disk, S3, GCS, Azure and memory, all through obstore.

On local disk a conditional create is a hard link to a file that was written whole, so that a
reader never sees half of it; on object stores it is a conditional put.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, from_url

from holdfast.errors import StorageUnavailable
from holdfast.storage import urls
from holdfast.storage.store import Missing

T = TypeVar("T")


def open_store(url: str, options: Mapping[str, str] | None = None) -> "ObjectStorage":
    """The folder that a path or URL names, made if it is local and not there."""
    try:
        if url.startswith("memory:"):
            return ObjectStorage(MemoryStore(), url)
        if urls.is_local(url):
            folder = urls.local_path(url)
            return ObjectStorage(LocalStore(folder, mkdir=True, automatic_cleanup=True), url)
        given = dict(options or {})
        backend = from_url(urls.for_rust(url), **given)  # type: ignore[call-overload]  # any store's
        return ObjectStorage(backend, url)
    except (BaseError, OSError, ValueError) as error:
        raise _unavailable(url, "", error) from error


class ObjectStorage:
    """A Store on anything that obstore opens."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self.backend = store
        self._url = url

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """The whole content, or its last so many bytes."""
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
            raise _unavailable(self._url, path, error) from error

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Put the content whole; with `create`, only if the name is free."""
        mode: Literal["create", "overwrite"] = "create" if create else "overwrite"
        try:
            obstore.put(self.backend, path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError):
            return False
        except (BaseError, OSError) as error:
            raise _unavailable(self._url, path, error) from error
        return True

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of files and folders directly in a folder, sorted."""
        nothing: tuple[str, ...] = ()
        return tuple(sorted(self._answered(folder, lambda: self._listed(folder), nothing)))

    def delete(self, path: str) -> None:
        """Remove one file; nothing happens if there is none."""
        self._answered(path, lambda: obstore.delete(self.backend, path), None)

    def _listed(self, folder: str) -> tuple[str, ...]:
        listing = obstore.list_with_delimiter(self.backend, folder or None)
        paths = [meta["path"] for meta in listing["objects"]] + list(listing["common_prefixes"])
        return tuple(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def _answered(self, path: str, ask: Callable[[], T], absent: T) -> T:
        try:
            return ask()
        except FileNotFoundError:
            return absent
        except (BaseError, OSError) as error:
            raise _unavailable(self._url, path, error) from error


def _unavailable(url: str, path: str, error: Exception) -> StorageUnavailable:
    where = f"{url}/{path}" if path else url
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    full = "No space left" in reason or "quota" in reason.lower()
    hint = (
        f"make room on the disk of `{url}`, then start again"
        if full
        else f"check that `{url}` exists and that this user may read and write it"
    )
    return StorageUnavailable(f"expected to use storage `{where}`, found: {reason}", hint=hint)
