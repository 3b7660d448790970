"""States that a crash, a person or a tool can leave a checkpoint in: each a change of its files.

    STATES["commit: last gone"](folder)     changes <folder>/ck

A state is made from a checkpoint at rest. What a state needs and the checkpoint does not have, as
a second source, makes it no change at all: it is then the checkpoint at rest once more.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from holdfast.model.json import to_canonical

Change = Callable[[Path], None]
STATES: dict[str, Change] = {}
LOGS, SOURCES, STATE, LOST, BARE = "log", "source", "state", "lost", "bare"
KINDS: dict[str, str] = {}


def _state(name: str, kind: str) -> Callable[[Change], Change]:
    def added(change: Change) -> Change:
        STATES[name], KINDS[name] = change, kind
        return change

    return added


def ids(folder: Path) -> list[int]:
    """The numbered entries of a log, in order."""
    if not folder.is_dir():
        return []
    names = (file.name.removesuffix(".compact") for file in folder.iterdir() if file.is_file())
    return sorted({int(name) for name in names if name.isdecimal()})


def removed(path: Path, *, checksum: bool = True) -> None:
    """Remove a file, with the checksum that Hadoop hides beside it or without."""
    path.unlink(missing_ok=True)
    if checksum:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def written(path: Path, data: bytes) -> None:
    """Write a file as something else than Spark would: without a checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _entry(log: Path, back: int = 0) -> Path | None:
    """The last entry of a log, or one before it."""
    found = ids(log)
    if len(found) <= back:
        return None
    name = str(found[-1 - back])
    return log / name if (log / name).exists() else log / f"{name}.compact"


@_state("untouched", LOGS)
def _untouched(folder: Path) -> None:
    assert folder.exists()


def _gone(log: str, back: int, *, checksum: bool = True) -> Change:
    def change(folder: Path) -> None:
        path = _entry(folder / "ck" / log, back)
        if path is not None:
            removed(path, checksum=checksum)

    return change


def _both(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


def _all_gone(*logs: str, folders: bool = False) -> Change:
    def change(folder: Path) -> None:
        for log in logs:
            path = folder / "ck" / log
            shutil.rmtree(path, ignore_errors=True)
            if not folders:
                path.mkdir(exist_ok=True)

    return change


_LAST_OFFSET, _LAST_COMMIT = _gone("offsets", 0), _gone("commits", 0)
_listed: dict[str, Change] = {
    "commit: last gone": _LAST_COMMIT,
    "commit: last two gone": _both(_LAST_COMMIT, _LAST_COMMIT),
    "commit: last three gone": _both(_LAST_COMMIT, _LAST_COMMIT, _LAST_COMMIT),
    "commit: all gone": _all_gone("commits"),
    "commit: folder gone": _all_gone("commits", folders=True),
    "commit: one before gone": _gone("commits", 1),
    "commit: two before gone": _gone("commits", 2),
    "commit: last gone, checksum left": _gone("commits", 0, checksum=False),
    "offset: last gone": _LAST_OFFSET,
    "offset: last two gone": _both(_LAST_OFFSET, _LAST_OFFSET),
    "offset: last gone, commit before gone": _both(_LAST_OFFSET, _gone("commits", 1)),
    "offset: one before gone": _gone("offsets", 1),
    "offset: two before gone": _gone("offsets", 2),
    "offset: all gone": _all_gone("offsets"),
    "offset: folder gone": _all_gone("offsets", folders=True),
    "rewound by one": _both(_LAST_OFFSET, _LAST_COMMIT),
    "rewound by two": _both(_LAST_OFFSET, _LAST_COMMIT, _LAST_OFFSET, _LAST_COMMIT),
    "rewound by one, commit's checksum left": _both(
        _LAST_OFFSET, _gone("commits", 0, checksum=False)
    ),
    "rewound by one, offset's checksum left": _both(
        _gone("offsets", 0, checksum=False), _LAST_COMMIT
    ),
    "both logs gone": _all_gone("offsets", "commits"),
    "both logs and state gone": _all_gone("offsets", "commits", "state", folders=True),
    "only metadata left": _all_gone("offsets", "commits", "state", "sources", folders=True),
    "commit: one before gone, last offset gone": _both(_gone("commits", 1), _LAST_OFFSET),
}
for _name, _change in _listed.items():
    _state(_name, LOGS)(_change)


def _metadata(data: bytes | None, *, checksum: bool = True) -> Change:
    def change(folder: Path) -> None:
        path = folder / "ck" / "metadata"
        if data is None:
            removed(path, checksum=checksum)
        else:
            written(path, data)

    return change


_UNKNOWN_ID = to_canonical({"id": "11111111-2222-4333-8444-555555555555"}).encode()
_state("metadata: gone", LOGS)(_metadata(None))
_state("metadata: gone, checksum left", LOGS)(_metadata(None, checksum=False))
_state("metadata: empty", LOGS)(_metadata(b""))
_state("metadata: no JSON", LOGS)(_metadata(b"garbage"))
_state("metadata: torn", LOGS)(_metadata(_UNKNOWN_ID[:12]))
_state("metadata: no id", LOGS)(_metadata(b"{}"))
_state("metadata: no UUID", LOGS)(_metadata(b'{"id":"me"}'))
_state("metadata: other query", LOGS)(_metadata(_UNKNOWN_ID))

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "torn in the version": lambda data: data[:1],
    "torn after the version": lambda data: data.partition(b"\n")[0],
    "torn in the second line": lambda data: data[: data.index(b"\n") + 8],
    "torn at its end": lambda data: data[:-3],
    "of version 9": lambda data: b"v9" + data[2:],
    "no log": lambda _: b"nothing that Spark wrote\n",
    "no JSON": lambda data: data.partition(b"\n")[0] + b"\nnothing\n",
    "with a line end": lambda data: data + b"\n",
    "with two line ends": lambda data: data + b"\n\n",
}


def _damaged(log: str, back: int, damage: Damage) -> Change:
    def change(folder: Path) -> None:
        path = _entry(folder / "ck" / log, back)
        if path is not None:
            data = path.read_bytes()
            written(path, damage(data) if b"\n" in data else b"")

    return change


for _how, _damage in DAMAGES.items():
    _state(f"offset: last {_how}", LOGS)(_damaged("offsets", 0, _damage))
    _state(f"commit: last {_how}", LOGS)(_damaged("commits", 0, _damage))
    _state(f"offset: last {_how}, pending", LOGS)(
        _both(_LAST_COMMIT, _damaged("offsets", 0, _damage))
    )
    _state(f"source: last {_how}", SOURCES)(_damaged("sources/0", 0, _damage))
for _how in ("empty", "torn after the version", "torn at its end", "of version 9"):
    for _back, _word in ((1, "one before"), (2, "two before")):
        _state(f"offset: {_word} {_how}", LOGS)(_damaged("offsets", _back, DAMAGES[_how]))
        _state(f"commit: {_word} {_how}", LOGS)(_damaged("commits", _back, DAMAGES[_how]))
    _state(f"source: one before {_how}", SOURCES)(_damaged("sources/0", 1, DAMAGES[_how]))


def _below_version(head: bytes) -> Damage:
    return lambda data: head + b"\n" + data.partition(b"\n")[2]


_PINS_NOTHING = b'{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def _second_line(line: bytes) -> Damage:
    return lambda data: b"\n".join([data.split(b"\n")[0], line, *data.split(b"\n")[2:]])


def _watermark(spelt: bytes) -> Damage:
    return lambda data: re.sub(rb'(WatermarkMs":)\d+', rb"\g<1>" + spelt, data, count=1)


_state("commit: last of version 2", LOGS)(_damaged("commits", 0, _below_version(b"v2")))
_state("commit: last of version 3", LOGS)(_damaged("commits", 0, _below_version(b"v3")))
_state("offset: last of version 2", LOGS)(_damaged("offsets", 0, _below_version(b"v2")))
_state("offset: last of version 2, a line without a name", LOGS)(
    _damaged("offsets", 0, lambda data: _below_version(b"v2")(data) + b"\n-")
)
_state("offset: last of version 2, second line empty", LOGS)(
    _damaged("offsets", 0, lambda data: _below_version(b"v2")(_second_line(b"")(data)))
)
_state("commit: last with an empty second line", LOGS)(_damaged("commits", 0, _second_line(b"\n")))
_state("offset: last with a setting of `true`", LOGS)(
    _damaged("offsets", 0, lambda data: re.sub(rb'(\.partitions":)"\d+"', rb"\g<1>true", data))
)
_state("offset: last with a setting that is a number", LOGS)(
    _damaged("offsets", 0, lambda data: re.sub(rb'(\.partitions":)"(\d+)"', rb"\g<1>\2", data))
)
for _value in ("x", "7", 1.5, None, True, [7]):
    _spelt = json.dumps(_value)
    for _log, _word in (("commits", "commit"), ("offsets", "offset")):
        _state(f"{_word}: last with the watermark {_spelt}", LOGS)(
            _damaged(_log, 0, _watermark(_spelt.encode()))
        )


def _ahead(log: str, by: int) -> Change:
    """A copy of the last entry under a later number."""

    def change(folder: Path) -> None:
        path = _entry(folder / "ck" / log)
        if path is not None:
            written(path.with_name(str(int(path.name) + by)), path.read_bytes())

    return change


_state("commit: one ahead", LOGS)(_ahead("commits", 1))
_state("commit: three ahead", LOGS)(_ahead("commits", 3))
_state("offset: one ahead, no data", LOGS)(_ahead("offsets", 1))
_state("offset: three ahead", LOGS)(_ahead("offsets", 3))
_state("both one ahead", LOGS)(_both(_ahead("offsets", 1), _ahead("commits", 1)))


@_state("offset: one ahead, range unknown to the source", LOGS)
def _ahead_of_source(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets")
    if path is None:
        return
    lines = path.read_text().split("\n")
    position = json.loads(lines[2])["logOffset"]
    lines[2] = to_canonical({"logOffset": position + 1})
    written(path.with_name(str(int(path.name) + 1)), "\n".join(lines).encode())


@_state("offset: source goes back", LOGS)
def _goes_back(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets")
    if path is not None:
        lines = path.read_text().split("\n")
        lines[2] = to_canonical({"logOffset": 0})
        written(path.with_name(str(int(path.name) + 1)), "\n".join(lines).encode())


@_state("offset: last names a source less", LOGS)
def _one_source_less(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets")
    if path is not None:
        written(path, path.read_bytes().rpartition(b"\n")[0])


@_state("offset: one before names a source more", LOGS)
def _one_source_more(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets", 1)
    if path is not None:
        written(path, path.read_bytes() + b'\n{"logOffset":0}')


@_state("offset: first source without an offset", LOGS)
def _no_offset(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets", 1)
    if path is not None:
        lines = path.read_text().split("\n")
        lines[2] = "-"
        written(path, "\n".join(lines).encode())


LINES = {
    "an offset of Kafka": b'{"t":{"0":1}}',
    "an offset of no partition": b"{}",
    "an offset of Delta": b'{"sourceVersion":1,"reservoirId":"a","reservoirVersion":1,"index":-1,'
    b'"isStartingVersion":false}',
    "an offset of rate-micro-batch": b'{"offset":2,"timestamp":0}',
    "an offset of Iceberg": b'{"version":1,"snapshot_id":7,"position":2,"scan_all_files":true}',
    "a number": b"1",
    "the number -1": b"-1",
    "a fraction": b"1.5",
    "a list": b"[1]",
    "a text": b'"x"',
    "`null`": b"null",
    "a log offset that is a text": b'{"logOffset":"1"}',
}
"""Lines of other sources, or of none, in place of the offset of source 0."""


def _line(back: int, line: bytes) -> Change:
    def other(data: bytes) -> bytes:
        lines = data.split(b"\n")
        return b"\n".join([*lines[:2], line, *lines[3:]])

    return _damaged("offsets", back, other)


for _how, _spelling in LINES.items():
    _state(f"offset: last with {_how} for source 0", SOURCES)(_line(0, _spelling))
    _state(f"offset: last with {_how} for source 0, pending", SOURCES)(
        _both(_line(0, _spelling), _LAST_COMMIT)
    )
    _state(f"offset: one before with {_how} for source 0, pending", SOURCES)(
        _both(_line(1, _spelling), _LAST_COMMIT)
    )


def _respelt(log: str, back: int = 0) -> Change:
    """As a program writes JSON that puts spaces in it."""

    def change(folder: Path) -> None:
        path = _entry(folder / "ck" / log, back)
        if path is not None:
            head, metadata, *offsets = path.read_text().split("\n")
            spelt = [json.dumps(json.loads(one)) for one in offsets]
            written(path, "\n".join([head, metadata, *spelt]).encode())

    return change


_state("offset: last with spaces", LOGS)(_respelt("offsets"))
_state("offset: last with spaces, pending", LOGS)(_both(_respelt("offsets"), _LAST_COMMIT))
_state("offset: one before with spaces", LOGS)(_respelt("offsets", 1))


def _partitions(back: int, number: str | None) -> Change:
    """Another number of partitions, as an unfinished repartition leaves it, or none."""

    def change(folder: Path) -> None:
        path = _entry(folder / "ck" / "offsets", back)
        if path is not None:
            head, metadata, rest = path.read_text().split("\n", 2)
            told = json.loads(metadata)
            kept = {key: value for key, value in told.get("conf", {}).items() if key != _SHUFFLE}
            told["conf"] = kept if number is None else {**kept, _SHUFFLE: number}
            written(path, f"{head}\n{to_canonical(told)}\n{rest}".encode())

    return change


_SHUFFLE = "spark.sql.shuffle.partitions"
_state("partitions: another number before", LOGS)(_partitions(1, "7"))
_state("partitions: another number before, pending", LOGS)(_both(_partitions(1, "7"), _LAST_COMMIT))
_state("partitions: not pinned, pending", LOGS)(_both(_partitions(0, None), _LAST_COMMIT))
_state("offset: last with a second line that pins nothing", BARE)(
    _damaged("offsets", 0, _second_line(_PINS_NOTHING))
)
_state("offset: last with a second line that pins nothing, pending", BARE)(
    _both(_damaged("offsets", 0, _second_line(_PINS_NOTHING)), _LAST_COMMIT)
)
_state("offset: last with an empty second line", LOGS)(_damaged("offsets", 0, _second_line(b"")))
_state("offset: last with an empty second line, pending", LOGS)(
    _both(_damaged("offsets", 0, _second_line(b"")), _LAST_COMMIT)
)
_state("offset: second line empty before, pending", LOGS)(
    _both(_damaged("offsets", 1, lambda data: b"v1\n\n" + data.split(b"\n", 2)[2]), _LAST_COMMIT)
)


@_state("offset: watermark ahead", LOGS)
def _watermark_ahead(folder: Path) -> None:
    path = _entry(folder / "ck" / "offsets")
    if path is not None:
        head, metadata, rest = path.read_text().split("\n", 2)
        told = json.loads(metadata)
        told["batchWatermarkMs"] += 1_000
        written(path, f"{head}\n{to_canonical(told)}\n{rest}".encode())


@_state("stray files in both logs", LOGS)
def _stray(folder: Path) -> None:
    for log in ("offsets", "commits"):
        written(folder / "ck" / log / "notes.txt", b"hello")
        written(folder / "ck" / log / ".7.0d4f3b0e-6c4b-4f6e-9a53-0d6a3c0f1b11.tmp", b"")
        (folder / "ck" / log / "99").mkdir(exist_ok=True)


@_state("stray file, nothing else", LOGS)
def _only_stray(folder: Path) -> None:
    _all_gone("offsets", "commits", "state", "sources")(folder)
    written(folder / "ck" / "commits" / "notes.txt", b"hello")


@_state("stray folder of state, nothing else", LOGS)
def _only_state_folder(folder: Path) -> None:
    _all_gone("offsets", "commits", "state", "sources")(folder)
    (folder / "ck" / "state" / "0").mkdir(parents=True)


def _source_gone(source: int, back: int, *, checksum: bool = True) -> Change:
    return _gone(f"sources/{source}", back, checksum=checksum)


@_state("source: ahead by one", SOURCES)
def _source_ahead(folder: Path) -> None:
    path = _entry(folder / "ck" / "sources" / "0")
    if path is not None:
        following = int(path.name.removesuffix(".compact")) + 1
        last = path.read_text().split("\n")[-1]
        told = json.loads(last)
        told["batchId"] = following
        written(path.with_name(str(following)), f"v1\n{to_canonical(told)}".encode())


_sources: dict[str, Change] = {
    "source: folder gone": _all_gone("sources/0", folders=True),
    "source: all folders gone": _all_gone("sources", folders=True),
    "source: entries gone": _all_gone("sources/0"),
    "source: last gone": _source_gone(0, 0),
    "source: last gone, checksum left": _source_gone(0, 0, checksum=False),
    "source: last two gone": _both(_source_gone(0, 0), _source_gone(0, 0)),
    "source: one before gone": _source_gone(0, 1),
    "source: two before gone": _source_gone(0, 2),
    "source: last gone, pending": _both(_source_gone(0, 0), _LAST_COMMIT),
    "source: one before gone, pending": _both(_source_gone(0, 1), _LAST_COMMIT),
    "source: folder gone, pending": _both(_all_gone("sources/0", folders=True), _LAST_COMMIT),
    "source: ahead by one, pending": _both(_source_ahead, _LAST_COMMIT),
    "source 1: folder gone": _all_gone("sources/1", folders=True),
    "source 1: last gone": _source_gone(1, 0),
    "source 1: last gone, pending": _both(_source_gone(1, 0), _LAST_COMMIT),
}
for _name, _change in _sources.items():
    _state(_name, SOURCES)(_change)


_KINDS = ("delta", "snapshot", "zip", "changelog")


def _stores(folder: Path) -> list[Path]:
    """The folders of state stores, by operator, partition and store."""
    state = folder / "ck" / "state"
    return sorted({file.parent for kind in _KINDS for file in state.rglob(f"*.{kind}")})


def _versions(store: Path) -> list[int]:
    stems = (file.name.partition(".")[0] for file in store.iterdir() if file.is_file())
    return sorted({int(stem) for stem in stems if stem.isdecimal()})


def _version_removed(store: Path, version: int) -> None:
    for file in store.glob(f"{version}.*"):
        removed(file)


def _version_gone(back: int, *, everywhere: bool) -> Change:
    def change(folder: Path) -> None:
        for store in _stores(folder)[: None if everywhere else 1]:
            versions = _versions(store)
            if len(versions) > back:
                _version_removed(store, versions[-1 - back])

    return change


def _version_empty(back: int, *, everywhere: bool) -> Change:
    def change(folder: Path) -> None:
        for store in _stores(folder)[: None if everywhere else 1]:
            versions = _versions(store)
            for kind in _KINDS if len(versions) > back else ():
                file = store / f"{versions[-1 - back]}.{kind}"
                if file.exists():
                    written(file, b"")

    return change


@_state("state: one version ahead", STATE)
def _version_ahead(folder: Path) -> None:
    for store in _stores(folder):
        newest = _versions(store)[-1]
        for file in store.glob(f"{newest}.*"):
            shutil.copy(file, store / file.name.replace(str(newest), str(newest + 1), 1))


def _below_state(*names: str, data: bytes | None = None) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            for path in (folder / "ck" / "state").glob(name):
                if path.is_dir():
                    shutil.rmtree(path)
                elif data is None:
                    removed(path)
                else:
                    written(path, data)

    return change


def _cut(*names: str, keep: Callable[[bytes], int] = lambda data: len(data) // 2) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            for path in (folder / "ck" / "state").glob(name):
                data = path.read_bytes()
                written(path, data[: keep(data)])

    return change


def _last_zip_cut(keep: Callable[[bytes], int]) -> Change:
    def change(folder: Path) -> None:
        for store in _stores(folder):
            zips = sorted(store.glob("*.zip"), key=lambda file: int(re.split(r"\D", file.name)[0]))
            for file in zips[-1:]:
                written(file, file.read_bytes()[: keep(file.read_bytes())])

    return change


def _empty_snapshot(*, whole_changes: bool) -> Change:
    """An empty snapshot of the version before the last, with or without the first changes."""

    def change(folder: Path) -> None:
        for store in _stores(folder)[:1]:
            changes = [file for kind in ("delta", "changelog") for file in store.glob(f"*.{kind}")]
            numbered = sorted((int(re.split(r"\D", file.name)[0]), file) for file in changes)
            if len(numbered) > 1:
                before, first = numbered[-2][1], numbered[0][1]
                kind = "snapshot" if before.suffix == ".delta" else "zip"
                written(before.with_suffix(f".{kind}"), b"")
                if not whole_changes:
                    removed(first)

    return change


def _moved(container: str, to: str) -> Change:
    """Everything in a folder of the checkpoint, moved into another one."""

    def change(folder: Path) -> None:
        checkpoint = folder / "ck"
        shutil.move(checkpoint / container, folder / "moved")
        (checkpoint / to).mkdir(parents=True, exist_ok=True)
        for one in (folder / "moved").iterdir():
            shutil.move(one, checkpoint / to / one.name)
        (folder / "moved").rmdir()

    return change


_SCHEMAS = ("*/0/_metadata/schema", "*/0/*/_metadata/schema")
_EVOLVED, _METADATA_2 = "*/_stateSchema/*/[!.]*", "*/_metadata/v2/[!.]*"
_SSTS = ("*/*/SSTs", "*/*/*/SSTs")
_states: dict[str, Change] = {
    "state: last version gone in one store": _version_gone(0, everywhere=False),
    "state: last version gone": _version_gone(0, everywhere=True),
    "state: a level too deep": _moved("state/0", "state/0/0"),
    "state: a level too high": _moved("state/0", "state"),
    "state: in `state/state`": _moved("state", "state/state"),
    "state: beside its folder": _moved("state/0", "0"),
    "state: last two versions gone": _both(
        _version_gone(0, everywhere=True), _version_gone(0, everywhere=True)
    ),
    "state: one version before gone in one store": _version_gone(1, everywhere=False),
    "state: one version before gone": _version_gone(1, everywhere=True),
    "state: last version empty in one store": _version_empty(0, everywhere=False),
    "state: last version empty": _version_empty(0, everywhere=True),
    "state: one version before empty": _version_empty(1, everywhere=True),
    "state: partition 0 gone": _below_state("0/0"),
    "state: partition 1 gone": _below_state("0/1"),
    "state: schema gone": _below_state(*_SCHEMAS),
    "state: schema empty": _below_state(*_SCHEMAS, data=b""),
    "state: schema torn": _below_state(*_SCHEMAS, data=b"\0\2v2\0\0\0\1\0\x40{"),
    "state: operator metadata gone": _below_state("*/_metadata/metadata"),
    "state: operator metadata empty": _below_state("*/_metadata/metadata", data=b""),
    "state: operator metadata no JSON": _below_state("*/_metadata/metadata", data=b"v1\nno"),
    "state: SSTs gone": _below_state(*_SSTS),
    "state: SSTs cut": _cut(*(f"{one}/[!.]*.sst" for one in _SSTS)),
    "state: last zip cut": _last_zip_cut(lambda data: len(data) // 2),
    "state: last zip cut in its list": _last_zip_cut(lambda data: len(data) - 30),
    "state: empty snapshot, changes whole": _empty_snapshot(whole_changes=True),
    "state: empty snapshot, first changes gone": _empty_snapshot(whole_changes=False),
    "state: evolved schema gone": _below_state(_EVOLVED),
    "state: evolved schema empty": _below_state(_EVOLVED, data=b""),
    "state: evolved schema cut": _cut(_EVOLVED),
    "state: evolved schema cut to 40 bytes": _cut(_EVOLVED, keep=lambda _: 40),
    "state: operator metadata 2 gone": _below_state(_METADATA_2),
    "state: operator metadata 2 empty": _below_state(_METADATA_2, data=b""),
    "state: operator metadata 2 no JSON": _below_state(_METADATA_2, data=b"v2\nno"),
    "state: operator metadata 2 cut": _cut(_METADATA_2),
}
_state("state: checksums gone", STATE)(_below_state("*/*/*.crc", "*/*/*/*.crc"))
for _name, _change in _states.items():
    _state(_name, STATE)(_change)
    _state(f"{_name}, pending", STATE)(_both(_change, _LAST_COMMIT))
_state("state: one version ahead, pending", STATE)(_both(_version_ahead, _LAST_COMMIT))
_state("state: one version ahead, rewound", STATE)(
    _both(_version_ahead, _LAST_OFFSET, _LAST_COMMIT)
)
_state("state: rewound by two", STATE)(
    _both(_LAST_OFFSET, _LAST_COMMIT, _LAST_OFFSET, _LAST_COMMIT, _untouched)
)


# Only of some queries anything is left that tells of the state.
_lost = {
    "lost: folder `state`": _below_state("*"),
    "lost: folder `state`, pending": _both(_below_state("*"), _LAST_COMMIT),
    "lost: folder of the first operator": _below_state("0"),
    "lost: folder of the first operator, pending": _both(_below_state("0"), _LAST_COMMIT),
}
for _name, _change in _lost.items():
    _state(_name, LOST)(_change)
