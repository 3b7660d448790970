"""One place, spelled as each engine wants it."""

from pathlib import Path

import pytest

from holdfast.storage import urls

HERE = str(Path.cwd())

# given: the same place's canonical text, for Rust, for Spark
LOCAL = {
    "/data/c": "/data/c",
    "/data/c/": "/data/c",
    "/data//c": "/data/c",
    "/data/./c": "/data/c",
    "/data/x/../c": "/data/c",
    "/../data/c": "/data/c",
    "///data/c": "/data/c",
    "file:/data/c": "/data/c",
    "file:///data/c": "/data/c",
    "FILE:///data/c/": "/data/c",
    "file:///data/x/..//c": "/data/c",
    "/data/two words": "/data/two words",
    "file:/data/two%20words": "/data/two%20words",
    "file:///data/two words": "/data/two words",
    "/data/größe/日本/🚀": "/data/größe/日本/🚀",
    "file:///data/größe": "/data/größe",
    "file:///data/%41": "/data/%41",
    "/data/100%": "/data/100%",
    "/data/a%20b": "/data/a%20b",
    "file:///data/100%": "/data/100%",
    "/data/a#b?c": "/data/a#b?c",
    "/data/k=1/a:b": "/data/k=1/a:b",
    "/data/...": "/data/...",
    "/": "/",
    "c": f"{HERE}/c",
    "./c": f"{HERE}/c",
    "a/../c/": f"{HERE}/c",
}
OBJECTS = {
    "s3://bucket/c": ("s3://bucket/c", "s3://bucket/c", "s3a://bucket/c"),
    "s3a://bucket/c": ("s3://bucket/c", "s3://bucket/c", "s3a://bucket/c"),
    "s3n://bucket/c": ("s3://bucket/c", "s3://bucket/c", "s3a://bucket/c"),
    "S3A://bucket/C": ("s3://bucket/C", "s3://bucket/C", "s3a://bucket/C"),
    "s3://bucket/c/": ("s3://bucket/c", "s3://bucket/c/", "s3a://bucket/c/"),
    "s3://bucket": ("s3://bucket", "s3://bucket", "s3a://bucket"),
    "s3://bucket/": ("s3://bucket", "s3://bucket/", "s3a://bucket/"),
    "s3://bucket/two words/ü": (
        "s3://bucket/two words/ü", "s3://bucket/two words/ü", "s3a://bucket/two words/ü"
    ),
    "gs://bucket/c": ("gs://bucket/c", "gs://bucket/c", "gs://bucket/c"),
    "gcs://bucket/c": ("gs://bucket/c", "gs://bucket/c", "gs://bucket/c"),
    "abfss://box@account.dfs.core.windows.net/c": (
        ("abfss://box@account.dfs.core.windows.net/c",) * 3
    ),
    "hdfs://host:8020/c": ("hdfs://host:8020/c",) * 3,
    "HDFS://host:8020/C": ("hdfs://host:8020/C",) * 3,
    "hdfs://host:8020/c/": ("hdfs://host:8020/c", "hdfs://host:8020/c/", "hdfs://host:8020/c/"),
    "hdfs:///c": ("hdfs:///c",) * 3,
    "hdfs:/c": ("hdfs:///c",) * 3,
    "hdfs:///": ("hdfs:///",) * 3,
}  # fmt: skip


@pytest.mark.parametrize(("given", "path"), LOCAL.items(), ids=LOCAL)
def test_a_place_on_this_machine(given: str, path: str) -> None:
    assert urls.is_local(given)
    assert not urls.is_s3(given)
    assert urls.get_scheme(given) == "file"
    assert urls.to_local_path(given) == Path(path)
    assert urls.to_canonical(given) == path
    assert urls.to_rust_url(given) == path
    assert urls.to_spark_url(given) == f"file://{path}"


@pytest.mark.parametrize(
    ("given", "scheme"),
    [("//[x", "file"), ("file://[a/b", "file"), ("s3://[x/y", "s3"), ("hdfs:/x", "hdfs")],
)
def test_brackets_are_letters(given: str, scheme: str) -> None:
    assert urls.get_scheme(given) == scheme


@pytest.mark.parametrize("given", ["//data/c", "file:////data/c"])
def test_two_leading_slashes_are_no_other_place(given: str) -> None:
    assert urls.to_canonical(given) == "/data/c"


@pytest.mark.parametrize(("given", "spelled"), OBJECTS.items(), ids=OBJECTS)
def test_a_place_in_a_bucket(given: str, spelled: tuple[str, str, str]) -> None:
    assert not urls.is_local(given)
    assert (urls.to_canonical(given), urls.to_rust_url(given), urls.to_spark_url(given)) == spelled


@pytest.mark.parametrize("given", [*LOCAL, *OBJECTS])
def test_the_canonical_text_stays_as_it_is(given: str) -> None:
    once = urls.to_canonical(given)
    assert urls.to_canonical(once) == once
    assert urls.to_canonical(urls.to_rust_url(given)) == once


@pytest.mark.parametrize("given", [*LOCAL, *OBJECTS])
def test_what_spark_is_told_is_the_same_place(given: str) -> None:
    assert urls.to_canonical(urls.to_spark_url(given)) == urls.to_canonical(given)


@pytest.mark.parametrize("given", ["s3://b/c", "s3a://b/c", "S3N://b/c"])
def test_what_s3a_serves(given: str) -> None:
    assert urls.is_s3(given)


@pytest.mark.parametrize("given", ["gs://b/c", "/s3://b", "hdfs://h/c", "s3", "/s3/c"])
def test_what_it_does_not(given: str) -> None:
    assert not urls.is_s3(given)


@pytest.mark.parametrize("given", ["hdfs://h:1/c", "HDFS://h/c", "hdfs:///c", "hdfs:/c"])
def test_what_is_on_hdfs(given: str) -> None:
    assert urls.is_hdfs(given)


@pytest.mark.parametrize("given", ["/hdfs/c", "hdfs", "./hdfs:/c", "s3://hdfs/c", "hdfs2://h/c"])
def test_what_is_not(given: str) -> None:
    assert not urls.is_hdfs(given)
