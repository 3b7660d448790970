"""Fixtures that several kinds of test share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.examples.broker import Broker
from holdfast.examples.database import Database
from holdfast.run.session import build, jars
from tests import collations
from tests.cloud_servers import AzureServer, GoogleServer
from tests.mariadb_server import MariaDbServer
from tests.servers import HdfsServer, S3Server
from tests.spark.versions import Sparks


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of a run, with the jars and settings that holdfast chooses."""
    given = {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(str(path) for path in jars.fetch("jdbc-drivers")),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    built = build.open_session("tests", master="local[2]", given=given, on_s3=False, debug=False)
    yield built
    built.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One real Kafka broker for all tests of a run."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with Broker(folder) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def pgpass(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """PGPASSFILE, before anything is started: Spark's workers keep the variables of their start."""
    place = tmp_path_factory.mktemp("pgpass") / "pgpass"
    with pytest.MonkeyPatch.context() as m:
        m.setenv("PGPASSFILE", str(place))
        yield place


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory, pgpass: Path) -> Iterator[Database]:
    """One real PostgreSQL server for all tests of a run, its role's password in PGPASSFILE."""
    server = Database(tmp_path_factory.mktemp("database"))
    with collations.compiled() as locales:
        with pytest.MonkeyPatch.context() as m:
            m.setenv("LOCPATH", locales)
            server.start()
        with server:
            shutil.copy(server.pgpass, pgpass)
            yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """One real MariaDB server for all tests of a run; its packages are downloaded once."""
    with MariaDbServer(tmp_path_factory.mktemp("mariadb")) as running:
        yield running


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One real S3 server for all tests of a run; built at the first time, which takes minutes."""
    with S3Server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """One real HDFS for all tests of a run."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """One Azurite for all tests of a run; its packages are downloaded once."""
    with AzureServer(tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture(scope="session")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """One fake-gcs-server for all tests of a run; built at the first time, which takes minutes."""
    with GoogleServer(tmp_path_factory.mktemp("google")) as running:
        yield running


@pytest.fixture(scope="session")
def sparks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sparks]:
    """Every version of Spark that a test asks for, installed and started once."""
    running = Sparks(tmp_path_factory.mktemp("pyspark"))
    yield running
    running.close()
