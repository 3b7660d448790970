"""The name of a jar set -> the local paths of jars that Spark needs and pyspark does not ship.

`jars.lock`, next to this file, lists every jar of every set, one per line, separated by blanks:

    <set> <group>:<artifact>:<version> <sha256>

A jar is used only if its sha256 matches the lock. Hashing all jars at every start of Spark would
take seconds, so the file `.holdfast-verified` in the cache lists verified jars, one per line:

    <sha256> <size> <mtime in ns> <path in the cache>

A jar whose size or mtime differs is hashed again. If this file is lost, every jar is hashed once
more.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from holdfast.errors import HoldfastError, JarsUnavailable, make_extras_error

DEFAULT_SETS = ("spark-4.1", "kafka-broker")
_DOWNLOAD_TIMEOUT_S = 120
_FETCH = "python -m holdfast.run.session.jars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A locked jar: its Maven coordinate, and the hash of the only accepted content."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """Return the name of the jar in Maven and in the lock file."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def cache_path(self) -> str:
        """Return the path in a Maven cache, relative to its root."""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.artifact}/{self.version}/{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifiedFile:
    """A file as it was when its hash was computed."""

    sha256: str
    size: int
    mtime_ns: int


def fetch(jar_set: str) -> tuple[Path, ...]:
    """Return the local paths of the jars of a set, all verified; download missing jars.

    Raises:
        JarsUnavailable: the lock has no such set, a jar cannot be downloaded, or its hash differs.
    """
    locked = parse_lock(
        resources.files("holdfast.run.session").joinpath("jars.lock").read_text("utf-8")
    )
    if jar_set not in locked:
        raise JarsUnavailable(
            f"`{jar_set}` is not a set of jars. The sets are:"
            f" {', '.join(f'`{name}`' for name in locked)}",
            hint=f"name one of these sets, as in `{_FETCH} {DEFAULT_SETS[0]}`",
        )
    cache = find_cache()
    verified = _read_verified(cache)
    checked = {jar.cache_path: _verify(cache, jar, verified) for jar in locked[jar_set]}
    missing = [jar for jar in locked[jar_set] if checked[jar.cache_path] is None]
    downloaded = _download(missing, cache) if missing else {}
    cached = {path: file for path, file in checked.items() if file is not None}
    updated = verified | cached | downloaded
    if updated != verified:
        _write_verified(cache, updated)
    return tuple(cache / jar.cache_path for jar in locked[jar_set])


def parse_lock(text: str) -> Mapping[str, tuple[Jar, ...]]:
    """Return the sets of a lock file, in its order; raise JarsUnavailable for an invalid line."""
    sets: dict[str, tuple[Jar, ...]] = {}
    for line in text.splitlines():
        match line.split():
            case [] | ["#", *_]:
                continue
            case [jar_set, coordinate, sha256] if coordinate.count(":") == 2:  # noqa: PLR2004
                group, artifact, version = coordinate.split(":")
                jar = Jar(group=group, artifact=artifact, version=version, sha256=sha256)
                sets[jar_set] = (*sets.get(jar_set, ()), jar)
            case _:
                raise JarsUnavailable(
                    f"`{line}` in `jars.lock` is not `set group:artifact:version sha256`",
                    hint="run `make lock`",
                )
    return sets


def find_cache() -> Path:
    """Return Maven's local cache, found as Maven's own tools find it."""
    folder = os.environ.get("M2_REPO")  # noqa: TID251 - Maven's variable, not a setting of holdfast
    return Path(folder) if folder else Path.home() / ".m2" / "repository"


def compute_sha256(path: Path) -> str:
    """Return the sha256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(cache: Path, jar: Jar, verified: Mapping[str, _VerifiedFile]) -> _VerifiedFile | None:
    """Return the cached file if it matches the lock; None if it does not, or is missing."""
    path = cache / jar.cache_path
    try:
        status = path.stat()
    except OSError:
        return None
    file = _VerifiedFile(sha256=jar.sha256, size=status.st_size, mtime_ns=status.st_mtime_ns)
    if verified.get(jar.cache_path) == file or compute_sha256(path) == jar.sha256:
        return file
    return None


def _download(jars: Iterable[Jar], cache: Path) -> dict[str, _VerifiedFile]:
    """Download jars into the cache, each in one atomic step after its hash was checked."""
    try:
        # Imported late: a start with every jar in the cache must not pay for this import.
        from jgo.maven import MavenContext
    except ModuleNotFoundError as error:
        raise make_extras_error(["jgo"], ["spark"]) from error
    downloaded: dict[str, _VerifiedFile] = {}
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Into a temporary folder, because jgo writes in place: an interrupted download, or two at
        # the same time, would leave half a jar where Maven and Spark expect a whole one.
        with tempfile.TemporaryDirectory(dir=cache, prefix=".holdfast-") as folder:
            maven = MavenContext(repo_cache=Path(folder), timeout=_DOWNLOAD_TIMEOUT_S)
            for jar in jars:
                component = maven.project(jar.group, jar.artifact).at_version(jar.version)
                downloaded[jar.cache_path] = _adopt(component.artifact().resolve(), jar, cache)
    # jgo and requests raise either RuntimeError or OSError if a server cannot be reached.
    except (OSError, RuntimeError) as error:
        raise JarsUnavailable(
            f"cannot download the locked jars into `{cache}`: {error}",
            hint=f"check the connection to the Maven repository, then run `{_FETCH}`",
        ) from error
    return downloaded


def _adopt(downloaded: Path, jar: Jar, cache: Path) -> _VerifiedFile:
    """Move a downloaded jar into the cache; raise JarsUnavailable if its hash is wrong."""
    sha256 = compute_sha256(downloaded)
    if sha256 != jar.sha256:
        raise JarsUnavailable(
            f"the downloaded `{jar.coordinate}` has sha256 `{sha256}`, but the lock has"
            f" `{jar.sha256}`",
            hint="run `make lock`, but only if you know that the jar was changed",
        )
    target = cache / jar.cache_path
    target.parent.mkdir(parents=True, exist_ok=True)
    downloaded.replace(target)
    status = target.stat()
    return _VerifiedFile(sha256=sha256, size=status.st_size, mtime_ns=status.st_mtime_ns)


def _read_verified(cache: Path) -> dict[str, _VerifiedFile]:
    try:
        lines = (cache / ".holdfast-verified").read_text("utf-8").splitlines()
    except OSError:
        return {}
    verified = {}
    for line in lines:
        match line.split(" ", 3):
            case [sha256, size, mtime_ns, path] if size.isdecimal() and mtime_ns.isdecimal():
                file = _VerifiedFile(sha256=sha256, size=int(size), mtime_ns=int(mtime_ns))
                verified[path] = file
            case _:
                continue
    return verified


def _write_verified(cache: Path, verified: Mapping[str, _VerifiedFile]) -> None:
    # If the cache cannot be written, starts are slower, which is not an error.
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=cache) as folder:
        draft = Path(folder) / "verified"
        draft.write_text(
            "".join(
                f"{file.sha256} {file.size} {file.mtime_ns} {path}\n"
                for path, file in sorted(verified.items())
            ),
            "utf-8",
        )
        draft.replace(cache / ".holdfast-verified")


def main(names: Sequence[str]) -> int:
    """Bring every jar of the named sets into the cache; print one line per set."""
    try:
        for name in names or DEFAULT_SETS:
            paths = fetch(name)
            size = sum(path.stat().st_size for path in paths) / 1_000_000
            sys.stdout.write(f"{name}: {len(paths)} jars, {size:.0f} MB\n")
    except HoldfastError as error:
        sys.stderr.write(f"{error}\nhint: {error.hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
