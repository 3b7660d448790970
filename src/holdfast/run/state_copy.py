"""A checkpoint -> a temporary copy from which Spark's State Data Source can read one operator.

The source must not read the checkpoint itself, because it writes: up to Spark 4.1 it creates
missing folders, and up to 4.2 it opens a store for writing. The copy contains only what the source
needs:

    metadata   offsets/   commits/   state/<operator>/

A transformWithState operator names its schema files by absolute paths. The copy replaces these
paths with its own, so that a checkpoint that was moved can be read, too.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StateUnreadable
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused, urls
from holdfast.storage.reader import join_path

_EVERYTHING = 1 << 62
_AT_ONCE = 64
_OPERATOR_METADATA = re.compile(r"state/\d+/_metadata/v2/\d+")
_METADATA_CHECKSUM = re.compile(r"state/\d+/_metadata/v2/\.\d+\.crc")
_SCHEMA_PATH = re.compile(rb'"[^"]*/(state/\d+/_stateSchema/[^"]+)"')


@contextmanager
def copy_checkpoint(reader: Reader, top: Children, operator: int) -> Iterator[Path]:
    """Yield a temporary copy; `top` is what the checkpoint's folder directly contains."""
    with tempfile.TemporaryDirectory(
        prefix="holdfast-state-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder) / "checkpoint"
        logs = [name for name in ("offsets", "commits") if name in top.folders]
        paths = [file.name for file in top.files if file.name in ("metadata", ".metadata.crc")]
        for portion in reader.walk([*logs, f"state/{operator}"]):
            if isinstance(portion, Portion):
                paths += [join_path(portion.folder, file.name) for file in portion.files]
            elif portion.forbidden:
                raise _make_refused_error(portion.path, portion)
        # The copy changes these files, so that their checksums would no longer match.
        paths = [path for path in paths if not _METADATA_CHECKSUM.fullmatch(path)]
        for start in range(0, len(paths), _AT_ONCE):
            _copy_files(reader, copy, paths[start : start + _AT_ONCE])
        yield copy


def _copy_files(reader: Reader, copy: Path, paths: Sequence[str]) -> None:
    for piece, data in reader.read([Piece(path=path, most=_EVERYTHING) for path in paths]):
        if isinstance(data, Missing):
            continue  # a running query has removed it
        if isinstance(data, Refused):
            raise _make_refused_error(piece.path, data)
        target = copy / piece.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_relocate_schema_files(piece.path, data, copy))


def _make_refused_error(path: str, refused: Refused) -> StateUnreadable:
    return StateUnreadable(
        f"`{path}` cannot be read: {refused.reason}",
        hint="run the command as a user who may read the checkpoint",
    )


def _relocate_schema_files(path: str, data: bytes, copy: Path) -> bytes:
    """Return the file with the paths of schema files changed to those in the copy."""
    if not _OPERATOR_METADATA.fullmatch(path):
        return data
    return _SCHEMA_PATH.sub(rb'"%b/\1"' % urls.to_spark_url(str(copy)).encode(), data)
