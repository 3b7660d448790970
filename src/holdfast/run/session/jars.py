"""The jars that Spark needs and pyspark does not ship: a set's name -> the local paths of its jars.

`jars.lock`, beside this file, names every jar of every set; one line each, fields split by blanks:

    <set> <group>:<artifact>:<version> <sha256>

A jar is used only when its sha256 is the locked one. Hashing at every start of Spark would cost
seconds, so what was hashed once is remembered in the cache's `.holdfast-verified`, one line a jar:

    <sha256> <size> <mtime in ns> <path in the cache>

A jar whose size or mtime differs is hashed again. Losing that file costs one hashing, nothing else.
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
_RETRY = "python -m holdfast.run.session.jars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A locked jar: where Maven puts it, and the only content that is accepted."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """The name that Maven and the lock file know it by."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def cache_path(self) -> str:
        """The place in a Maven cache, relative to its root."""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.artifact}/{self.version}/{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifiedFile:
    """A file as it was when its hash was taken."""

    sha256: str
    size: int
    mtime_ns: int


def fetch(jar_set: str) -> tuple[Path, ...]:
    """The local path of every jar of a set, each the locked one; downloads what is missing.

    Raises:
        JarsUnavailable: the lock has no such set, or a jar cannot be had or is not the locked one.
    """
    locked = parse_lock(
        resources.files("holdfast.run.session").joinpath("jars.lock").read_text("utf-8")
    )
    if jar_set not in locked:
        raise JarsUnavailable(
            f"expected a set of jars out of {', '.join(f'`{name}`' for name in locked)}, "
            f"found `{jar_set}`",
            hint=f"{_RETRY} {DEFAULT_SETS[0]}",
        )
    cache = find_cache()
    seen = _read_verified(cache)
    checked = {jar.cache_path: _verify(cache, jar, seen) for jar in locked[jar_set]}
    missing = [jar for jar in locked[jar_set] if checked[jar.cache_path] is None]
    fresh = _download(missing, cache) if missing else {}
    now = seen | {path: file for path, file in checked.items() if file is not None} | fresh
    if now != seen:
        _write_verified(cache, now)
    return tuple(cache / jar.cache_path for jar in locked[jar_set])


def parse_lock(text: str) -> Mapping[str, tuple[Jar, ...]]:
    """The sets of a lock file, in its order; a line that is not one of a lock is refused."""
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
                    f"expected `set group:artifact:version sha256` in `jars.lock`, found `{line}`",
                    hint="make lock",
                )
    return sets


def find_cache() -> Path:
    """Maven's local cache, found as Maven's own tools find it."""
    named = os.environ.get("M2_REPO")  # noqa: TID251 - Maven's variable, not a setting of holdfast
    return Path(named) if named else Path.home() / ".m2" / "repository"


def compute_sha256(path: Path) -> str:
    """The sha256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(cache: Path, jar: Jar, seen: Mapping[str, _VerifiedFile]) -> _VerifiedFile | None:
    """The cached file if it is the locked one, else None: a half-written file counts as missing."""
    path = cache / jar.cache_path
    try:
        status = path.stat()
    except OSError:
        return None
    found = _VerifiedFile(sha256=jar.sha256, size=status.st_size, mtime_ns=status.st_mtime_ns)
    if seen.get(jar.cache_path) == found or compute_sha256(path) == jar.sha256:
        return found
    return None


def _download(jars: Iterable[Jar], cache: Path) -> dict[str, _VerifiedFile]:
    """Bring jars into the cache, each in one atomic step after its hash was found right."""
    try:
        # Late, because a start with every jar in place must not pay for this import.
        from jgo.maven import MavenContext
    except ModuleNotFoundError as error:
        raise make_extras_error(["jgo"], ["spark"]) from error
    fresh: dict[str, _VerifiedFile] = {}
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # A folder of its own, because jgo writes in place: an interrupted or a second, simultaneous
        # download would leave half a jar where Maven and Spark look for a whole one.
        with tempfile.TemporaryDirectory(dir=cache, prefix=".holdfast-") as folder:
            maven = MavenContext(repo_cache=Path(folder), timeout=_DOWNLOAD_TIMEOUT_S)
            for jar in jars:
                component = maven.project(jar.group, jar.artifact).at_version(jar.version)
                fresh[jar.cache_path] = _adopt(component.artifact().resolve(), jar, cache)
    # jgo and requests raise RuntimeError and OSError alike for what cannot be reached.
    except (OSError, RuntimeError) as error:
        raise JarsUnavailable(
            f"expected to download the locked jars into `{cache}`, found: {error}", hint=_RETRY
        ) from error
    return fresh


def _adopt(downloaded: Path, jar: Jar, cache: Path) -> _VerifiedFile:
    found = compute_sha256(downloaded)
    if found != jar.sha256:
        raise JarsUnavailable(
            f"expected sha256 `{jar.sha256}` for `{jar.coordinate}`, downloaded `{found}`",
            hint="make lock, if the jar is known to have changed",
        )
    target = cache / jar.cache_path
    target.parent.mkdir(parents=True, exist_ok=True)
    downloaded.replace(target)
    status = target.stat()
    return _VerifiedFile(sha256=found, size=status.st_size, mtime_ns=status.st_mtime_ns)


def _read_verified(cache: Path) -> dict[str, _VerifiedFile]:
    try:
        lines = (cache / ".holdfast-verified").read_text("utf-8").splitlines()
    except OSError:
        return {}
    seen = {}
    for line in lines:
        match line.split(" ", 3):
            case [sha256, size, mtime_ns, path] if size.isdecimal() and mtime_ns.isdecimal():
                seen[path] = _VerifiedFile(sha256=sha256, size=int(size), mtime_ns=int(mtime_ns))
            case _:
                continue
    return seen


def _write_verified(cache: Path, seen: Mapping[str, _VerifiedFile]) -> None:
    # A cache that cannot be written is a slower start, not an error.
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=cache) as folder:
        draft = Path(folder) / "verified"
        draft.write_text(
            "".join(
                f"{file.sha256} {file.size} {file.mtime_ns} {path}\n"
                for path, file in sorted(seen.items())
            ),
            "utf-8",
        )
        draft.replace(cache / ".holdfast-verified")


def main(names: Sequence[str]) -> int:
    """Have every jar of the named sets in the cache; one line of output for each set."""
    try:
        for name in names or DEFAULT_SETS:
            found = fetch(name)
            size = sum(path.stat().st_size for path in found) / 1_000_000
            sys.stdout.write(f"{name}: {len(found)} jars, {size:.0f} MB\n")
    except HoldfastError as error:
        sys.stderr.write(f"{error}\nhint: {error.hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
