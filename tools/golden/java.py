"""The Java classes that the scenarios need, compiled for each Spark with the `javac` of a JDK."""

import os
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

_SOURCES = Path(__file__).parent / "java" / "holdfast" / "golden"
_QUIET = ("-nowarn", "-Xlint:-options")


def compile_classes(folder: Path, names: Iterable[str], class_path: Iterable[Path]) -> Path:
    """Compile classes of `tools/golden/java` for the Spark on a class path, and return the jar."""
    classes = folder / "classes"
    places = os.pathsep.join(str(path) for path in class_path)
    sources = [str(_SOURCES / f"{name}.java") for name in names]
    options = (*_QUIET, "--release", "8", "-cp", places, "-d", str(classes))
    subprocess.run(["javac", *options, *sources], check=True)  # noqa: S603, S607 - built here
    jar = folder / "scenarios.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes))
    return jar
