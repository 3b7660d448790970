"""Write src/holdfast/run/session/jars.lock anew: resolve each set's roots, download, hash.

What pyspark ships already is left out: Delta's closure drags in a second Hadoop client, Jackson and
log4j, and two versions of one class on a class path are a failure that depends on the order. The
names are compared with those of the installed pyspark, for every Spark line; the lists of pyspark
4.0.1 and 4.2.0 were compared as well and leave out the same artifacts.
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

LOCK = Path(__file__).parent.parent / "src" / "holdfast" / "run" / "jars.lock"
HEADER = """\
# Written by `make lock`; do not edit. One line a jar: set, coordinate, sha256.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """What is resolved for a set, and whether pyspark's jars are beside it on the class path."""

    name: str
    roots: tuple[str, ...]
    transitive: bool = True
    beside_pyspark: bool = True


def spark_line(line: str, spark: str, *, avro: bool = True) -> JarSet:
    """Delta, Kafka and Avro for one Spark line."""
    kafka = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
    # Later releases of the token provider are not to be had, and 4.0.0 works with them. The
    # connector comes first, so that Maven's rule takes the connector's version of kafka-clients.
    tokens = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
    delta = f"io.delta:delta-spark_{line}_2.13:4.4.0"
    extra = (f"org.apache.spark:spark-avro_2.13:{spark}",) if avro else ()
    return JarSet(name=f"spark-{line}", roots=(kafka, tokens, delta, *extra))


# Hadoop asks for the bundle of all AWS clients, 640 MB. These modules of it, 9 MB, are what the
# classes of S3A refer to, with what those need; Netty and Apache HttpClient are pyspark's. KMS is
# left out: encryption on the client's side needs a further library anyway.
SDK_MODULES = (
    *("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client"),
    *("annotations", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi"),
    *("json-utils", "metrics-spi", "profiles", "protocol-core", "regions", "retries"),
    *("retries-spi", "sdk-core", "third-party-jackson-core", "utils"),
)

SETS = (
    spark_line("4.0", "4.0.1"),
    spark_line("4.1", "4.1.1"),
    # spark-avro 4.2.0 is not to be had.
    spark_line("4.2", "4.2.0", avro=False),
    # Only what S3A needs: the closure of hadoop-cloud holds every other vendor's client as well.
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
    # JDBC drivers for tests and measurements; users bring their own.
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
    # What Spark's own JDBC writer needs, to be compared with.
    JarSet(name="jdbc-postgres", roots=("org.postgresql:postgresql:42.7.7",), transitive=False),
    # A NameNode and a DataNode for tests: the servers and all they need, in a few jars.
    JarSet(
        name="hdfs-server",
        roots=(
            "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        beside_pyspark=False,
    ),
)


def shipped_by_pyspark() -> frozenset[str]:
    """The artifact names of the jars inside the installed pyspark."""
    folder = Path(pyspark.__file__).parent / "jars"
    return frozenset(re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name) for jar in folder.glob("*.jar"))


def resolve(jar_set: JarSet, maven: MavenContext, shipped: frozenset[str]) -> Iterable[Dependency]:
    """The jars of a set, in an order that does not change between runs."""
    roots = [maven.create_dependency(root) for root in jar_set.roots]
    if not jar_set.transitive:
        return roots
    resolved, transitive = maven.resolver.resolve(roots)
    beside = shipped if jar_set.beside_pyspark else frozenset()
    kept = [jar for jar in (*resolved, *transitive) if jar.artifactId not in beside]
    odd = [str(jar) for jar in kept if jar.classifier or jar.type != "jar"]
    if odd:
        sys.exit(f"expected plain jars, found {', '.join(odd)}")
    return sorted(kept, key=str)


def main() -> None:
    """Replace the lock in one step, after everything was resolved."""
    maven = MavenContext(repo_cache=find_cache(), timeout=120)
    shipped = shipped_by_pyspark()
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
