"""What differs on Azure and Google: spellings, options, and what their servers say."""

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from tests import checkpoint_files as files
from tests.adapters.remotes import AZURE, GOOGLE, remote
from tests.adapters.test_inspect_remote import uploaded
from tests.cloud_servers import AzureServer, CloudServer
from tests.looking import evidence

from holdfast.errors import LocationForbidden, StorageUnavailable
from holdfast.model.fact import Known
from holdfast.sinks.delta.log import LogTail
from holdfast.sinks.delta.table import DeltaLocation
from holdfast.storage import open_store, urls


@pytest.fixture(params=[AZURE, GOOGLE])
def cloud(request: pytest.FixtureRequest) -> CloudServer:
    server = request.getfixturevalue(request.param)
    assert isinstance(server, CloudServer)
    return server


def test_looking_asks_and_sends_nothing(tmp_path: Path, cloud: CloudServer) -> None:
    place = remote(cloud, "checkpoints")
    url = uploaded(files.write(tmp_path / "c"), place, "c")
    before = len(cloud.methods)
    evidence(url, place[1])
    since = cloud.methods[before:]
    assert since
    assert set(since) <= {"GET", "HEAD"}


def test_a_name_is_created_once(cloud: CloudServer) -> None:
    store = open_store(*remote(cloud, "base"))
    assert store.write("lease", b"first", create=True)
    assert not store.write("lease", b"second", create=True)
    assert store.read("lease") == b"first"


def test_a_bucket_that_is_not_there(cloud: CloudServer) -> None:
    url, options = remote(cloud, "c")
    # fake-gcs-server says 500 where Google says 404.
    said = "the server answered with `(404 Not Found|500 Internal Server Error)`"
    with pytest.raises(StorageUnavailable, match=said) as told:
        evidence(url.replace("://lake", "://none"), options)
    assert "<" not in told.value.message
    assert "exists" in told.value.hint


def test_the_log_of_a_delta_table_is_followed(cloud: CloudServer) -> None:
    url, options = remote(cloud, "table")
    place = DeltaLocation(path=url, options=options, partition_by=(), properties={})
    tail = LogTail(place, open_store(url, options), "app")
    for version in range(3):
        deltalake.write_deltalake(
            urls.to_rust_url(url),
            pa.table({f"k{version}": [1]}),
            mode="append",
            schema_mode="merge",
            storage_options=dict(options),
        )
        assert tail.head().version == version


@pytest.mark.prove
@pytest.mark.parametrize("scheme", ["az", "azure", "adl", "abfs"])
def test_the_account_may_be_an_option(tmp_path: Path, azure: AzureServer, scheme: str) -> None:
    place = remote(azure, "checkpoints")
    url = uploaded(files.write(tmp_path / "c"), place, "c")
    path = url.split("/", 3)[3]
    found = evidence(f"{scheme}://lake/{path}", place[1])
    assert isinstance(found.query_id, Known)
    assert found.query_id.value == files.QUERY_ID


@pytest.mark.prove
def test_a_wrong_key_is_told_as_such(azure: AzureServer) -> None:
    url, options = remote(azure, "c")
    wrong = {**options, "azure_storage_account_key": "d3Jvbmc="}
    with pytest.raises(LocationForbidden, match=r"answered with `403 Forbidden` \(`Auth"):
        evidence(url, wrong)


@pytest.mark.parametrize(
    ("url", "options", "key"),
    [
        ("az://box/c", {}, "azure_storage_account_name"),
        ("abfss://box@lake.dfs.core.windows.net/c", {"azure_acount": "x"}, "azure_storage"),
        ("gs://lake/c", {"google_service_account": "/nowhere.json"}, "google_service_account"),
    ],
)
def test_without_keys_the_hint_names_them(url: str, options: dict[str, str], key: str) -> None:
    with pytest.raises(StorageUnavailable) as told:
        evidence(url, options)
    assert f"--storage {key}" in told.value.hint
