"""Choose the implementation for a path or URL.

Reading a local folder needs only the operating system. So a command that only reads starts without
loading the clients of object stores and HDFS.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.storage import local, urls
from holdfast.storage.reader import Reader
from holdfast.storage.store import Folder

if TYPE_CHECKING:
    from holdfast.storage.remote import Remote


def open_store(url: str, options: Mapping[str, str] | None = None) -> Folder:
    """Open the folder that a path or URL names; create it if it is local and does not exist."""
    if urls.is_hdfs(url):
        from holdfast.storage import hdfs

        return hdfs.open_folder(urls.to_rust_url(url), options or {})
    from holdfast.storage import objects

    return objects.open_folder(url, options or {})


def open_reader(url: str, options: Mapping[str, str] | None = None) -> Reader:
    """Open the folder that a path or URL names for reading only; create nothing."""
    if urls.is_local(url):
        return local.open_folder(urls.to_local_path(url))
    from holdfast.storage import remote

    return remote.RemoteReader(_open_listing(url, options or {}))


def _open_listing(url: str, options: Mapping[str, str]) -> "Remote":
    if urls.is_hdfs(url):
        from holdfast.storage import hdfs

        return hdfs.open_listing(urls.to_rust_url(url), options)
    from holdfast.storage import objects

    return objects.open_listing(url, options)
