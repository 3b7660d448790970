"""Storage that a server has to be started for, as parameters of behaviour suites."""

import secrets
from collections.abc import Mapping

import pytest
from tests.cloud_servers import AzureServer, GoogleServer
from tests.servers import HdfsServer, S3Server

_MARKS = (pytest.mark.prove, pytest.mark.timeout(900))
S3, HDFS, AZURE, GOOGLE = (
    pytest.param(name, marks=_MARKS) for name in ("s3", "hdfs", "azure", "google")
)
SERVERS = (S3, HDFS, AZURE, GOOGLE)
"""Parameters of a fixture; the first test waits until its server is built and started."""


def remote(server: object, folder: str) -> tuple[str, Mapping[str, str]]:
    """A fresh folder on a server, and the options of its storage."""
    fresh = secrets.token_hex(4)
    match server:
        case S3Server() | AzureServer() | GoogleServer():
            return f"{server.bucket('lake')}/{fresh}/{folder}", server.storage
        case HdfsServer():
            return f"{server.url}/{fresh}/{folder}", {}
        case _:
            raise AssertionError(server)
