"""`<output>/_spark_metadata/N` and `N.compact` -> SinkFile; N is the batch id.

    v1
    {"path":"file:///out/part-0.parquet","size":9,"isDir":false,"modificationTime":1,
     "blockReplication":1,"blockSize":1,"action":"add"}          one line per file

The entry of a batch without rows has only the version line. An entry contains no query id.
"""

from holdfast.decode import log
from holdfast.model.checkpoint import SinkFile
from holdfast.model.fact import Unreadable


def decode(data: bytes) -> tuple[SinkFile, ...] | Unreadable:
    """Return the files that the batch added, or why the entry cannot be read."""
    head = log.split_version(data, "file sink log", (1,))
    if isinstance(head, Unreadable):
        return head
    files: list[SinkFile] = []
    for line in log.split_lines(head[1]):
        entry = _decode_entry(line)
        if isinstance(entry, Unreadable):
            return entry
        files.append(entry)
    return tuple(files)


def _decode_entry(line: str) -> SinkFile | Unreadable:
    fields = log.parse_object(line)
    if isinstance(fields, Unreadable):
        return fields
    path, action = fields.get("path"), fields.get("action", "add")
    size = log.as_integer(fields.get("size"))
    if not isinstance(path, str) or not isinstance(action, str) or size is None:
        return Unreadable(reason=f"`{log.shorten(line)}` has no path, size or action")
    return SinkFile(
        path=path,
        bytes=size,
        modified_ms=log.as_integer(fields.get("modificationTime")) or 0,
        action=action,
    )
