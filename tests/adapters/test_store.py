"""One behaviour of storage, over every implementation."""

import threading
from pathlib import Path

import pytest
from hdfs_native import Client, WriteOptions
from tests.adapters.remotes import SERVERS, remote
from tests.servers import HdfsServer, free_port

from holdfast.errors import StorageUnavailable
from holdfast.storage import Missing, Store, open_store
from holdfast.storage.hdfs import HdfsStorage

NAMES = [
    "plain", "two words", "100%", "a%20b", "k=a%2Fb", "a#b", "a?b", "a~b", "[x]", "it's", "a:b",
    "é", "e\u0301", "日本", "🚀", "v=1,2", "a+b", "..a", "a..", ".hidden", "N.compact", "x" * 200,
]  # fmt: skip


@pytest.fixture(params=["memory", "disk", *SERVERS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "memory":
            return open_store("memory://")
        case "disk":
            return open_store(str(tmp_path / "a b" / "ü%"))
        case server:
            return open_store(*remote(request.getfixturevalue(server), "a b/ü"))


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_kept_as_it_is(store: Store, name: str) -> None:
    if isinstance(store, HdfsStorage):
        name = name.replace(":", "-")  # which HDFS has not in its names
    assert store.write(f"{name}/{name}", b"content")
    assert store.read(f"{name}/{name}") == b"content"
    assert store.names(name) == (name,)
    assert store.names("") == (name,)
    store.delete(f"{name}/{name}")
    assert store.read(f"{name}/{name}") == Missing(path=f"{name}/{name}")


@pytest.mark.parametrize("name", NAMES)
def test_what_others_wrote_to_disk_is_found_under_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / name).write_bytes(b"theirs")
    disk = open_store(tmp_path.as_uri())
    assert disk.names(name) == (name,)
    assert disk.read(f"{name}/{name}") == b"theirs"


def test_a_write_replaces(store: Store) -> None:
    assert store.write("a", b"1")
    assert store.write("a", b"2")
    assert store.read("a") == b"2"


def test_a_create_does_not_replace(store: Store) -> None:
    assert store.write("d/a", b"1", create=True)
    assert not store.write("d/a", b"2", create=True)
    assert store.read("d/a") == b"1"
    store.delete("d/a")
    assert store.write("d/a", b"3", create=True)


def test_of_sixteen_that_create_one_name_one_is_told_so(store: Store) -> None:
    for turn in range(20):
        start = threading.Barrier(16)
        told: list[bytes] = []

        def create(mine: bytes, name: str, start: threading.Barrier, told: list[bytes]) -> None:
            start.wait()
            if store.write(name, mine, create=True):
                told.append(mine)

        threads = [
            threading.Thread(target=create, args=(b"%d" % n * 1000, f"r/{turn}", start, told))
            for n in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 1
        assert store.read(f"r/{turn}") == told[0]


@pytest.mark.parametrize(
    ("last", "expected"), [(1, b"9"), (3, b"789"), (10, b"0123456789"), (99, b"0123456789")]
)
def test_the_last_bytes(store: Store, last: int, expected: bytes) -> None:
    store.write("a", b"0123456789")
    assert store.read("a", last=last) == expected


def test_the_last_bytes_of_nothing(store: Store) -> None:
    store.write("empty", b"")
    assert store.read("empty") == b""
    assert store.read("empty", last=5) == b""
    assert store.read("none", last=5) == Missing(path="none")


def test_what_is_not_there(store: Store) -> None:
    assert store.read("none") == Missing(path="none")
    assert store.read("no/such/folder") == Missing(path="no/such/folder")
    assert store.names("none") == ()
    assert store.names("") == ()


def test_a_folder_is_no_file(store: Store) -> None:
    store.write("d/a", b"1")
    assert store.read("d") == Missing(path="d")


def test_deleting_twice(store: Store) -> None:
    store.write("a", b"1")
    store.delete("a")
    store.delete("a")
    store.delete("no/such/folder")
    assert store.names("") == ()


def test_names_are_those_directly_inside_and_sorted(store: Store) -> None:
    for path in ("b", "a/1", "a/2/3", "c/4", "aa"):
        store.write(path, b"")
    assert store.names("") == ("a", "aa", "b", "c")
    assert store.names("a") == ("1", "2")


@pytest.fixture
def blocked(tmp_path: Path) -> Store:
    """A store whose names lie below a regular file, where not even the root user may go."""
    (tmp_path / "file").write_bytes(b"")
    return open_store(str(tmp_path))


def test_storage_that_does_not_answer_is_said(blocked: Store) -> None:
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.read("file/x")
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.read("file/x", last=1)
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.write("file/x", b"")
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.write("file/x", b"", create=True)
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.names("file/x")
    with pytest.raises(StorageUnavailable, match="file/x"):
        blocked.delete("file/x")


def test_a_store_below_a_regular_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="file/base"):
        open_store(str(tmp_path / "file" / "base"))


@pytest.mark.prove
def test_a_draft_of_a_killed_writer_is_not_shown(hdfs: HdfsServer) -> None:
    store = open_store(f"{hdfs.url}/drafts")
    Client(hdfs.url).create("/drafts/.x.holdfast-draft", WriteOptions(create_parent=True)).close()
    store.write("a", b"1")
    assert store.names("") == ("a",)


def test_nobody_listens_at_the_name_node() -> None:
    with pytest.raises(StorageUnavailable, match="Connection refused"):
        open_store(f"hdfs://127.0.0.1:{free_port()}/base").names("")


def test_nobody_listens_at_the_bucket() -> None:
    options = {
        "aws_endpoint": f"http://127.0.0.1:{free_port()}",
        "aws_allow_http": "true",
        "aws_skip_signature": "true",
        "aws_connect_timeout": "1s",
        "aws_timeout": "1s",
    }
    with pytest.raises(StorageUnavailable, match="s3://bucket/base"):
        open_store("s3://bucket/base", options).names("")


KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_region": "region"}


@pytest.mark.parametrize(
    "more",
    [
        {"aws_allow_http": "true"},
        {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
        {"allow_http": "true", "timeout": "30s", "aws_connect_timeout": "5s"},
        {"aws_s3_allow_unsafe_rename": "true", "max_retries": "3"},
        {"google_service_account": "/no/such/file", "azure_storage_account_key": "a2V5"},
        {"dfs.client.failover.max.attempts": "2"},
    ],
    ids=" ".join,
)
def test_one_mapping_serves_every_storage_and_delta_rs(more: dict[str, str]) -> None:
    open_store("s3://bucket/base", {**KEYS, **more})


def test_a_misspelt_option_is_said() -> None:
    with pytest.raises(StorageUnavailable, match="aws_acces_key"):
        open_store("s3://bucket/base", {"aws_acces_key": "key"})
