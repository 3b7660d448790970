"""The locked jars: what is cached is used, what is not the locked jar is not."""

import hashlib
import time
from pathlib import Path

import pytest

from holdfast.errors import JarsUnavailable
from holdfast.run.session import jars

SMALL = "kafka-broker"


def test_every_locked_line_is_a_jar_once_in_its_set() -> None:
    text = Path(jars.__file__).with_name("jars.lock").read_text("utf-8")
    for locked in jars.parse_lock(text).values():
        assert len({(jar.group, jar.artifact) for jar in locked}) == len(locked)
        assert all(len(jar.sha256) == 64 for jar in locked)


def test_a_line_that_is_no_jar_is_refused() -> None:
    with pytest.raises(JarsUnavailable, match="`spark-9 something` in `jars"):
        jars.parse_lock("# a remark\n\nspark-9 something\n")


def test_an_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(JarsUnavailable, match=r"`spark-9` is not a set of jars.*`spark-4\.1`"):
        jars.fetch("spark-9")


def test_a_second_call_is_cheap() -> None:
    first = jars.fetch(SMALL)
    start = time.perf_counter()
    assert jars.fetch(SMALL) == first
    assert time.perf_counter() - start < 0.1


def cached_copy(target: Path) -> tuple[jars.Jar, ...]:
    """A cache of its own for a test, with hard links to the jars of the real one."""
    text = Path(jars.__file__).with_name("jars.lock").read_text("utf-8")
    for path in jars.fetch(SMALL):
        link = target / path.relative_to(jars.find_cache())
        link.parent.mkdir(parents=True, exist_ok=True)
        link.hardlink_to(path)
    return jars.parse_lock(text)[SMALL]


@pytest.mark.network
def test_a_damaged_jar_is_replaced_by_the_locked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = next(jar for jar in cached_copy(tmp_path) if jar.artifact == "slf4j-simple")
    monkeypatch.setenv("M2_REPO", str(tmp_path))
    damaged = tmp_path / jar.cache_path
    damaged.unlink()
    damaged.write_bytes(b"half a jar")
    assert damaged in jars.fetch(SMALL)
    assert hashlib.sha256(damaged.read_bytes()).hexdigest() == jar.sha256
    assert not list(tmp_path.glob(".holdfast-*/"))


@pytest.mark.network
def test_a_download_that_is_not_the_locked_jar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars.lock").write_text(f"any org.slf4j:slf4j-simple:1.7.36 {'0' * 64}\n")
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)
    monkeypatch.setenv("M2_REPO", str(tmp_path / "cache"))
    with pytest.raises(JarsUnavailable, match=f"the lock has `{'0' * 64}`"):
        jars.fetch("any")
    assert not list((tmp_path / "cache").rglob("*.jar"))
