"""holdfast as a user installs it: the built wheel in an environment of its own, without a download.

<folder>/holdfast-….whl     built by hatchling
<folder>/venv               an environment with the wheel and the base dependencies
<folder>/<extra>            what an extra adds, one folder each, for PYTHONPATH

The dependencies are links to what the environment of the tests has installed: exactly those that
the wheel's own metadata asks for.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.commands import Done

ROOT = Path(__file__).parents[1]
EXTRAS = ("spark", "postgres", "kafka", "hdfs")


def built(kind: str, folder: Path) -> Path:
    """Build a `wheel` or an `sdist` of the work tree, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (found,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


class Installed:
    """The wheel in an environment without any extra, to which extras can be added for a command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.wheel = built("wheel", folder)
        venv.create(folder / "venv", symlinks=True)
        own = next((folder / "venv/lib").glob("python*/site-packages"))
        asked = list(_requirements(self.wheel, folder))
        base = _closed(one for one in asked if one.marker is None)
        _link(base, own)
        for extra in EXTRAS:
            added = [one for one in asked if one.marker and one.marker.evaluate({"extra": extra})]
            _link(_closed(added) - base, folder / extra)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv/bin/python")]
        subprocess.run(
            [*pip, "install", "--quiet", "--no-deps", "--no-index", str(self.wheel)],
            env={**_clean(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=True,
            timeout=100,
        )

    def holdfast(self, *arguments: str, extras: Iterable[str] = (), within: Path) -> Done:
        """Run the installed command in a folder."""
        paths = [str(self._folder / one) for one in extras]
        done = subprocess.run(
            [self._folder / "venv/bin/holdfast", *arguments],
            cwd=within,
            env={**_clean(), "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def _clean() -> dict[str, str]:
    """The environment without the paths by which the tests' own packages would be found."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def _requirements(wheel: Path, folder: Path) -> Iterator[Requirement]:
    unpacked = folder / "unpacked"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, unpacked], check=True)
    (own,) = metadata.distributions(path=[str(unpacked)])
    for one in own.requires or ():
        yield Requirement(one)


def _closed(asked: Iterable[Requirement]) -> set[str]:
    """The names of the distributions that requirements need, and those that these need."""
    found: set[str] = set()
    waiting = list(asked)
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        try:
            needs = metadata.distribution(name).requires or ()
        except metadata.PackageNotFoundError:
            continue  # another platform's, or optional in a way that its marker does not say
        fresh = name not in found
        found.add(name)
        extras = one.extras or {""}
        for need in map(Requirement, needs):
            wanted = need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras)
            if wanted and (fresh or one.extras):
                waiting.append(need)
    return found


def _link(names: Iterable[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        files = metadata.distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
