"""Other versions of Spark, each in a process of its own that answers one step after another."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.model.json import Json

_LOCKED = "4.1.1"


class Spark:
    """A process that runs and checks queries under one version; another pyspark is shadowed."""

    def __init__(self, version: str, shadow: Path | None, log: Path) -> None:
        path = [str(shadow)] if shadow else []
        self.recording = version >= "4"
        self._log = log
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.version_steps"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(Path.cwd())])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def ask(self, do: str, query: str, folder: Path, **more: Json) -> Mapping[str, Json]:
        """One step."""
        assert self._process.stdin
        assert self._process.stdout
        step = {"do": do, "query": query, "folder": str(folder), **more}
        print(json.dumps(step), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-2000:]
        told: Mapping[str, Json] = json.loads(line)
        return told

    def close(self) -> None:
        """The end of its input is the end of the process."""
        self._process.communicate(timeout=60)


class Sparks:
    """One process a version, each pyspark installed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Spark] = {}
        self._started = 0

    def of(self, version: str) -> Spark:
        """The process of a version, for all cases."""
        if version not in self._running:
            self._running[version] = self.fresh(version)
        return self._running[version]

    def fresh(self, version: str) -> Spark:
        """A process that has run no query yet."""
        self._started += 1
        log = self._folder / f"{version}-{self._started}.log"
        return Spark(version, None if version == _LOCKED else self._installed(version), log)

    def _installed(self, version: str) -> Path:
        folder = self._folder / version
        if not folder.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--target", str(folder), f"pyspark=={version}"], check=True)
        return folder

    def close(self) -> None:
        """All of them."""
        for one in self._running.values():
            one.close()
