"""The Sparks from 2.1 on whose Python is too old for ours: their jars, and a JVM to drive them by.

They run on Java 8, which all of them support: `JAVA_8_HOME` names one. Those of 3.x come from the
package registry, as the newer ones do; those of 2.x cannot be installed from there any more, and
come from Maven Central, where each is whole.
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

# A broker of today talks to clients from 2.1 on only. Which client it is that reads the rows is no
# part of what a checkpoint holds.
_CLIENT = "org.apache.kafka:kafka-clients:2.8.2"
_POOL = "org.apache.commons:commons-pool2:2.11.1"
_KINESIS = "com.qubole.spark:spark-sql-kinesis_2.12:1.2.0_spark-3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSpark:
    """A release, and its connectors as Maven coordinates.

    A connector is taken in the newest release of its line that can be had.
    """

    version: str
    jars: tuple[str, ...]

    @property
    def delta(self) -> bool:
        """Whether there is a Delta for it."""
        return any(jar.startswith("io.delta:") for jar in self.jars)

    @property
    def kinesis(self) -> bool:
        """Whether there is a connector of Kinesis for it."""
        return _KINESIS in self.jars


def _whole(version: str, *more: str) -> OldSpark:
    """All of a Spark; the client first, because of two versions Maven takes the first."""
    spark = f"org.apache.spark:spark-sql_2.11:{version}"
    kafka = f"org.apache.spark:spark-sql-kafka-0-10_2.11:{version}"
    return OldSpark(version=version, jars=(_CLIENT, spark, kafka, *more))


def _beside(version: str, *more: str, kafka: str = "") -> OldSpark:
    """What a Spark of the package registry lacks."""
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
    """A JVM with a Spark in it, and what it takes to end it the hard way."""

    gateway: JavaGateway
    pid: int

    @property
    def of(self) -> JavaObject:
        """Its classes, by their names: no types are known of them."""
        return self.gateway.jvm

    def array(self, *texts: str) -> JavaObject:
        """A Java array of strings."""
        made = self.gateway.new_array(self.of.java.lang.String, len(texts))
        for place, text in enumerate(texts):
            made[place] = text
        return made


def java_8() -> Path:
    """The `java` that runs them."""
    home = os.environ.get("JAVA_8_HOME", "")
    found = next((one for one in Path(home).glob("**/bin/java")), None) if home else None
    if found is None:
        raise SystemExit("expected a Java 8 at `JAVA_8_HOME` for Spark 2.1 to 3.4, found none")
    return found


@contextmanager
def running(spark: OldSpark, folder: Path) -> Iterator[Jvm]:
    """A JVM with this Spark on its class path; ended with the block."""
    places = _class_path(spark, folder)
    with (folder / "jvm.log").open("w", encoding="utf-8") as log:
        port, token, process = launch_gateway(
            classpath=os.pathsep.join(str(place) for place in places),
            javaopts=["-Xmx1g", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"],
            java_path=str(java_8()),
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
                    # Otherwise Python goes on to free objects of a JVM that is no more.
                    enable_memory_management=False,
                )
            )
            yield Jvm(gateway=gateway, pid=process.pid)
        finally:
            process.kill()
            process.wait()


def _class_path(spark: OldSpark, folder: Path) -> list[Path]:
    if spark.version.startswith("2."):
        maven = MavenContext(repo_cache=jars.find_cache(), timeout=120)
        roots = [maven.create_dependency(root) for root in spark.jars]
        direct, transitive = maven.resolver.resolve(roots)
        found = [one.artifact.resolve() for one in (*direct, *transitive)]
    else:
        found = [*sparks.jars_in(sparks.installed(spark.version)), *sparks.downloaded(spark.jars)]
    # Spark 2.1 has no state of the user's own yet.
    groups = () if spark.version.startswith("2.1.") else ("Groups",)
    return [java.compiled(folder, ("Nothing", "Stuck", *groups), found), *found]
