"""The Spark releases from 2.1 to 3.4, which need an older Python: their jars, and a JVM for them.

They run on Java 8, which all of them support; set `JAVA_8_HOME` to one. Releases of 3.x come from
the package registry, like newer ones. Releases of 2.x can no longer be installed from there, and
come complete from Maven Central.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jgo.maven import MavenContext
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from tools.golden import java, sparks

from holdfast.run.session import jars

# A current broker accepts only clients from 2.1 on. A checkpoint does not depend on the client.
_CLIENT = "org.apache.kafka:kafka-clients:2.8.2"
_POOL = "org.apache.commons:commons-pool2:2.11.1"
_KINESIS = "com.qubole.spark:spark-sql-kinesis_2.12:1.2.0_spark-3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSpark:
    """A release, and its connectors as Maven coordinates.

    Each connector is the newest available release of its line.
    """

    version: str
    jars: tuple[str, ...]

    @property
    def delta(self) -> bool:
        """Return whether Delta is available for this release."""
        return any(jar.startswith("io.delta:") for jar in self.jars)

    @property
    def kinesis(self) -> bool:
        """Return whether a Kinesis connector is available for this release."""
        return _KINESIS in self.jars


def _whole(version: str, *more: str) -> OldSpark:
    """Return a complete Spark; the client is first, because Maven uses the first version."""
    spark = f"org.apache.spark:spark-sql_2.11:{version}"
    kafka = f"org.apache.spark:spark-sql-kafka-0-10_2.11:{version}"
    return OldSpark(version=version, jars=(_CLIENT, spark, kafka, *more))


def _beside(version: str, *more: str, kafka: str = "") -> OldSpark:
    """Return a Spark from the package registry, with the jars that it lacks."""
    connectors = (
        f"org.apache.spark:{name}-kafka-0-10_2.12:{kafka or version}"
        for name in ("spark-sql", "spark-token-provider")
    )
    return OldSpark(version=version, jars=(*connectors, _CLIENT, _POOL, *more))


OLD_SPARKS = (
    _whole("2.1.3"),
    _whole("2.2.3"),
    _whole("2.3.4"),
    _whole("2.4.8", "io.delta:delta-core_2.11:0.6.1"),
    _beside("3.0.3", "io.delta:delta-core_2.12:0.8.0", _KINESIS, kafka="3.0.2"),
    _beside("3.1.3", "io.delta:delta-core_2.12:1.0.1"),
    _beside(
        "3.2.4", "io.delta:delta-core_2.12:2.0.2", "io.delta:delta-storage:2.0.2", kafka="3.2.1"
    ),
    _beside("3.3.4", "io.delta:delta-core_2.12:2.3.0", "io.delta:delta-storage:2.3.0"),
    _beside("3.4.4", "io.delta:delta-core_2.12:2.4.0", "io.delta:delta-storage:2.4.0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A JVM with a Spark in it, and its process id for a kill."""

    gateway: JavaGateway
    pid: int

    @property
    def of(self) -> JavaObject:
        """Return the classes of the JVM, by name and without types."""
        return self.gateway.jvm

    def array(self, *texts: str) -> JavaObject:
        """Return a Java array of strings."""
        array = self.gateway.new_array(self.of.java.lang.String, len(texts))
        for index, text in enumerate(texts):
            array[index] = text
        return array


def find_java_8() -> Path:
    """Return the `java` of `JAVA_8_HOME`; end the program if there is none."""
    home = os.environ.get("JAVA_8_HOME", "")
    java_8 = next(iter(Path(home).glob("**/bin/java")), None) if home else None
    if java_8 is None:
        raise SystemExit(
            "`JAVA_8_HOME` contains no `bin/java`: set it to a Java 8, for Spark 2.1 to 3.4"
        )
    return java_8


@contextmanager
def start_jvm(spark: OldSpark, folder: Path) -> Iterator[Jvm]:
    """Start a JVM with this Spark on its class path, and kill it at the end of the block."""
    paths = _make_class_path(spark, folder)
    with (folder / "jvm.log").open("w", encoding="utf-8") as log:
        port, token, process = launch_gateway(
            classpath=os.pathsep.join(str(path) for path in paths),
            javaopts=["-Xmx1g", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"],
            java_path=str(find_java_8()),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            return_proc=True,
            enable_auth=True,
        )
        try:
            gateway = JavaGateway(
                gateway_parameters=GatewayParameters(
                    port=port,
                    auth_token=token,
                    # Otherwise Python keeps freeing objects of a JVM that has ended.
                    enable_memory_management=False,
                )
            )
            yield Jvm(gateway=gateway, pid=process.pid)
        finally:
            process.kill()
            process.wait()


def _make_class_path(spark: OldSpark, folder: Path) -> list[Path]:
    if spark.version.startswith("2."):
        maven = MavenContext(repo_cache=jars.find_cache(), timeout=120)
        roots = [maven.create_dependency(root) for root in spark.jars]
        direct, transitive = maven.resolver.resolve(roots)
        paths = [dependency.artifact.resolve() for dependency in (*direct, *transitive)]
    else:
        paths = [*sparks.list_jars(sparks.install(spark.version)), *sparks.download(spark.jars)]
    # Spark 2.1 has no user-defined state yet.
    groups = () if spark.version.startswith("2.1.") else ("Groups",)
    return [java.compile_classes(folder, ("Nothing", "Stuck", *groups), paths), *paths]
