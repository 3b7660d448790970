"""What fuzzing starts from: the examples of a format, and files of it that Spark wrote."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.decode import names
from holdfast.model.checkpoint import FileKind
from holdfast.model.fact import Unreadable
from tests.formats import FORMATS
from tests.golden import GOLDEN

_LARGEST = 1 << 14
_MOST = 40
_KINDS = {
    "metadata": {FileKind.METADATA},
    "offset log": {FileKind.OFFSETS},
    "commit log": {FileKind.COMMITS},
    "file source log": {FileKind.SOURCE_LOG, FileKind.SOURCE_COMPACT},
    "tail of a file source log": {FileKind.SOURCE_COMPACT},
    "source start": {FileKind.SOURCE_LOG, FileKind.SOURCE_PRIVATE},
    "operator metadata": {FileKind.OPERATOR_METADATA},
    "state schema": {FileKind.STATE_SCHEMA},
    "RocksDB zip": {FileKind.STATE_ZIP},
    "Spark checksum": {FileKind.SPARK_CHECKSUM},
    "Hadoop checksum": {FileKind.HADOOP_CHECKSUM},
}


def of(name: str) -> tuple[bytes, ...]:
    """The examples, then at most forty files, of every version of Spark and every scenario."""
    decode = FORMATS[name].decode
    read = (one for one in _written(name) if not isinstance(decode(one), Unreadable))
    return (*FORMATS[name].examples, *_spread(read))


def _written(name: str) -> Iterable[bytes]:
    if name == "names":
        return (path.encode() for path in _paths())
    if name == "file sink log":
        return _read(path for one in GOLDEN for path in one.sink.glob("_spark_metadata/*"))
    kinds = _KINDS.get(name, set())
    return _read(
        one.checkpoint / path
        for one in GOLDEN
        for path in _files(one.checkpoint)
        if names.classify(path).kind in kinds
    )


def _paths() -> Iterable[str]:
    return (path for one in GOLDEN for path in _files(one.checkpoint))


def _files(folder: Path) -> Iterable[str]:
    return (str(one.relative_to(folder)) for one in sorted(folder.rglob("*")) if one.is_file())


def _read(paths: Iterable[Path]) -> Iterable[bytes]:
    return (path.read_bytes() for path in paths if path.stat().st_size <= _LARGEST)


def _spread(found: Iterable[bytes]) -> list[bytes]:
    """Different ones, from the first to the last."""
    distinct = list(dict.fromkeys(found))
    return distinct[:: max(1, -(-len(distinct) // _MOST))]
