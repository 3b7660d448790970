"""The Spark releases that write the checkpoints: their packages, and the jars of their connectors.

Each line is represented by its newest patch release. A connector is the newest available release of
its line, which may lag behind. For 4.3, the connectors of Kafka and Delta are not available.
"""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jgo.maven import MavenContext

from holdfast.run.session import jars

REPOSITORY = Path(__file__).parent.parent.parent

# pandas 3 and NumPy 2 are too new for the older lines.
_PANDAS = ("pandas==2.2.3", "numpy==1.26.4")
_CONNECT = (
    "grpcio==1.76.0",
    "grpcio-status==1.76.0",
    "googleapis-common-protos==1.71.0",
    "protobuf==6.33.5",
    "zstandard==0.25.0",
    "pyyaml==6.0.3",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A release, the packages installed with it, and its connectors as a set or as coordinates."""

    version: str
    packages: tuple[str, ...]
    # A set of `src/holdfast/run/session/jars.lock`, or coordinates of a complete set of jars.
    jars: str | tuple[str, ...]
    kafka: bool
    delta: bool
    # A jar that includes its dependencies.
    iceberg: str = ""


SPARKS = (
    Spark(
        version="3.5.9",
        packages=(*_PANDAS, "pyarrow==17.0.0", "setuptools<80"),
        jars=(
            "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.1",
            "org.apache.kafka:kafka-clients:3.4.1",
            "org.apache.commons:commons-pool2:2.11.1",
            "io.delta:delta-spark_2.12:3.3.2",
            "io.delta:delta-storage:3.3.2",
        ),
        kafka=True,
        delta=True,
        iceberg="org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",
    ),
    Spark(
        version="4.0.5",
        packages=(*_PANDAS, "pyarrow==18.1.0", "protobuf==6.33.5"),
        jars="spark-4.0",
        kafka=True,
        delta=True,
        iceberg="org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    ),
    Spark(
        version="4.1.4",
        packages=(*_PANDAS, "pyarrow==18.1.0", *_CONNECT),
        jars="spark-4.1",
        kafka=True,
        delta=True,
        iceberg="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    ),
    Spark(
        version="4.2.1",
        packages=(*_PANDAS, "pyarrow==18.1.0", *_CONNECT),
        jars="spark-4.2",
        kafka=True,
        delta=True,
    ),
    Spark(
        version="4.3.0",
        packages=(*_PANDAS, "pyarrow==18.1.0", *_CONNECT),
        jars="spark-4.2",
        kafka=True,
        delta=False,
    ),
)


def install(version: str, packages: tuple[str, ...] = ()) -> Path:
    """Return the interpreter of a Spark's virtual environment, which the first call creates."""
    folder = REPOSITORY / ".golden" / version
    python = folder / "bin" / "python"
    done = folder / ".installed"
    wanted = "\n".join((f"pyspark=={version}", *packages))
    if done.is_file() and done.read_text("utf-8") == wanted:
        return python
    print(f"installing pyspark {version}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
    subprocess.run(  # noqa: S603
        [str(python), "-m", "pip", "install", "--quiet", *wanted.splitlines()], check=True
    )
    done.write_text(wanted, "utf-8")
    return python


def list_jars(python: Path) -> Iterable[Path]:
    """Return the jars in the pyspark of an environment."""
    return sorted(python.parent.parent.glob("lib/python*/site-packages/pyspark/jars/*.jar"))


def download(wanted: str | tuple[str, ...]) -> Iterable[Path]:
    """Download the jars of a set or of coordinates, and return their paths."""
    if isinstance(wanted, str):
        return jars.fetch(wanted)
    maven = MavenContext(repo_cache=jars.find_cache(), timeout=120)
    found = []
    for coordinate in wanted:
        group, artifact, version = coordinate.split(":")
        component = maven.project(group, artifact).at_version(version)
        found.append(component.artifact().resolve())
    return found
