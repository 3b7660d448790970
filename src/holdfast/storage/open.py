"""Which implementation serves a path or URL."""

from collections.abc import Mapping

from holdfast.storage import hdfs, objects, urls

Folder = objects.ObjectStorage | hdfs.HdfsStorage
"""Any implementation of the Store; it also tells the size of a file."""


def open_store(url: str, options: Mapping[str, str] | None = None) -> Folder:
    """The folder that a path or URL names, made if it is local and not there."""
    if urls.is_hdfs(url):
        return hdfs.open_folder(urls.for_rust(url), options or {})
    return objects.open_folder(url, options or {})
