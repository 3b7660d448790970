"""Write src/holdfast/run/session/jars.lock: resolve the roots of each set, download and hash.

Jars that pyspark ships are excluded. Delta's dependencies include a second Hadoop client, Jackson
and log4j, and with two versions of a class on the class path, their order decides whether Spark
fails. The names are compared with the jars of the installed pyspark, for every Spark line; pyspark
4.0.1 and 4.2.0 were compared too, and exclude the same artifacts.
"""

import re
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyspark
from jgo.maven import Dependency, MavenContext

from holdfast.run.session.jars import compute_sha256, find_cache

LOCK = Path(__file__).parent.parent / "src" / "holdfast" / "run" / "session" / "jars.lock"
HEADER = """\
# Written by `make lock`; do not edit. One line per jar: set, coordinate, sha256.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """The roots of a set of jars, and whether pyspark's jars are on the same class path."""

    name: str
    roots: tuple[str, ...]
    transitive: bool = True
    beside_pyspark: bool = True


def make_spark_set(line: str, spark: str, *, avro: bool = True) -> JarSet:
    """Return the set of Delta, Kafka and Avro for a Spark line."""
    kafka = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
    # Later releases of the token provider are not available, and 4.0.0 works with every line. The
    # connector comes first, so that Maven chooses the connector's version of kafka-clients.
    tokens = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
    delta = f"io.delta:delta-spark_{line}_2.13:4.4.0"
    extra = (f"org.apache.spark:spark-avro_2.13:{spark}",) if avro else ()
    return JarSet(name=f"spark-{line}", roots=(kafka, tokens, delta, *extra))


# Hadoop requires the bundle of all AWS clients, 640 MB. The classes of S3A need only these modules
# and their dependencies, 9 MB; Netty and Apache HttpClient are in pyspark. KMS is excluded, because
# client-side encryption needs another library anyway.
SDK_MODULES = (
    *("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client"),
    *("annotations", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi"),
    *("json-utils", "metrics-spi", "profiles", "protocol-core", "regions", "retries"),
    *("retries-spi", "sdk-core", "third-party-jackson-core", "utils"),
)

SETS = (
    make_spark_set("4.0", "4.0.1"),
    make_spark_set("4.1", "4.1.1"),
    # spark-avro 4.2.0 is not available.
    make_spark_set("4.2", "4.2.0", avro=False),
    # Only what S3A needs: hadoop-cloud also depends on the clients of all other vendors.
    JarSet(
        name="cloud-4.1",
        roots=(
            "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
            "org.apache.hadoop:hadoop-aws:3.4.2",
            *(f"software.amazon.awssdk:{module}:2.29.52" for module in SDK_MODULES),
            "software.amazon.eventstream:eventstream:1.0.1",
            "org.reactivestreams:reactive-streams:1.0.4",
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.2.1",
            "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
        ),
        transitive=False,
    ),
    # JDBC drivers for tests and benchmarks; users install their own.
    JarSet(
        name="jdbc-drivers",
        roots=("org.postgresql:postgresql:42.7.8", "org.mariadb.jdbc:mariadb-java-client:3.5.6"),
        transitive=False,
    ),
    JarSet(
        name="kafka-broker",
        roots=("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
        beside_pyspark=False,
    ),
    # For the benchmark against Spark's own JDBC writer.
    JarSet(name="jdbc-postgres", roots=("org.postgresql:postgresql:42.7.7",), transitive=False),
    # A NameNode and a DataNode for tests: the servers and their dependencies, in a few jars.
    JarSet(
        name="hdfs-server",
        roots=(
            "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        beside_pyspark=False,
    ),
)


def list_pyspark_jars() -> frozenset[str]:
    """Return the artifact names of the jars in the installed pyspark."""
    folder = Path(pyspark.__file__).parent / "jars"
    return frozenset(re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name) for jar in folder.glob("*.jar"))


def resolve(jar_set: JarSet, maven: MavenContext, shipped: frozenset[str]) -> Iterable[Dependency]:
    """Return the jars of a set, in an order that does not change between runs."""
    roots = [maven.create_dependency(root) for root in jar_set.roots]
    if not jar_set.transitive:
        return roots
    resolved, transitive = maven.resolver.resolve(roots)
    beside = shipped if jar_set.beside_pyspark else frozenset()
    kept = [jar for jar in (*resolved, *transitive) if jar.artifactId not in beside]
    odd = [str(jar) for jar in kept if jar.classifier or jar.type != "jar"]
    if odd:
        sys.exit(f"these artifacts are not plain jars: {', '.join(odd)}")
    return sorted(kept, key=str)


def main() -> None:
    """Resolve every set, then replace the lock in one step."""
    maven = MavenContext(repo_cache=find_cache(), timeout=120)
    shipped = list_pyspark_jars()
    lines = []
    for jar_set in SETS:
        jars = resolve(jar_set, maven, shipped)
        names = [f"{jar.groupId}:{jar.artifactId}:{jar.version}" for jar in jars]
        hashes = [compute_sha256(jar.artifact.resolve()) for jar in jars]
        lines += [f"{jar_set.name} {name} {sha}" for name, sha in zip(names, hashes, strict=True)]
        print(f"{jar_set.name}: {len(names)} jars")
    with tempfile.TemporaryDirectory(dir=LOCK.parent) as folder:
        draft = Path(folder) / LOCK.name
        draft.write_text(HEADER + "\n".join(lines) + "\n", "utf-8")
        draft.replace(LOCK)


if __name__ == "__main__":
    main()
