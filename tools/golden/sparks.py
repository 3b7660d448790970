"""The Sparks that write the checkpoints: their packages, and the jars of their connectors.

The newest patch of each line is taken. A connector is taken in the newest release of its line that
can be had, which may lag behind: Kafka's for 4.3 and Delta's for 4.3 cannot be had at all.
"""

from dataclasses import dataclass

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
    """A release, what is installed beside it, and its connectors as Maven coordinates or a set."""

    version: str
    packages: tuple[str, ...]
    # A set of `src/holdfast/run/jars.lock`, or coordinates of jars that are complete together.
    jars: str | tuple[str, ...]
    kafka: bool
    delta: bool


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
    ),
    Spark(
        version="4.0.5",
        packages=(*_PANDAS, "pyarrow==18.1.0", "protobuf==6.33.5"),
        jars="spark-4.0",
        kafka=True,
        delta=True,
    ),
    Spark(
        version="4.1.4",
        packages=(*_PANDAS, "pyarrow==18.1.0", *_CONNECT),
        jars="spark-4.1",
        kafka=True,
        delta=True,
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
