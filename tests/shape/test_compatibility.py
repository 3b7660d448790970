"""What users, scripts and earlier versions rely on stays as it was recorded.

`compatibility.json` holds the codes, exit codes, digests, ledger texts and JSON keys of an earlier
state of the project. New ones may appear; a recorded one must not change or disappear. After a
deliberate change, run `python -m tests.shape.test_compatibility` to record again.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.commands import holdfast
from tests.golden import GOLDEN, ONE_OF_EACH, Golden

from holdfast.decode import lease
from holdfast.errors import HoldfastError, OffsetsUnreadable
from holdfast.model.batch import Batch, Writer
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Severity
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.model.lease import Holder, Lease
from holdfast.run.query.batch import OffsetReader
from holdfast.sinks.delta import ledger
from holdfast.storage import open_store

RECORDED = Path(__file__).parent / "compatibility.json"
_LIFE = Writer(job=JobName("j"), generation=Generation(1), epoch=Epoch(3), location="/c/j")

Observed = dict[str, object]


def _leaves(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _leaves(child)


def observe_codes() -> Observed:
    """Return the error codes with their exit codes, the finding codes and the severities."""
    return {
        "errors": {kind.code: kind.exit_code for kind in _leaves(HoldfastError)},
        "findings": sorted(code.value for code in Code),
        "severities": sorted(severity.value for severity in Severity),
    }


def _digest(golden: Golden) -> str:
    reader = OffsetReader(open_store(str(golden.checkpoint.parent)), "checkpoint", _LIFE)
    found = {}
    for path in (golden.checkpoint / "offsets").glob("[0-9]*"):
        try:
            found[path.name] = str(reader.batch(BatchId(int(path.name))).digest)
        except OffsetsUnreadable:
            continue
    listed = " ".join(f"{batch}:{digest}" for batch, digest in sorted(found.items()))
    return f"{len(found)} {hashlib.sha256(listed.encode()).hexdigest()}"


def observe_digests() -> Observed:
    """Return, per checkpoint, how many batches have a digest and a hash over their digests."""
    return {str(golden): _digest(golden) for golden in GOLDEN}


def observe_records() -> Observed:
    """Return what a lease and a ledger entry look like on disk."""
    held = Lease(
        job=_LIFE.job,
        epoch=_LIFE.epoch,
        holder=Holder(host="h", pid=7, process="p"),
        since_ms=1,
        heartbeat_ms=2,
        ttl_ms=3,
        released=False,
    )
    batch = Batch(
        life=_LIFE,
        id=BatchId(5),
        digest=Digest("d"),
        offsets=[{"source": "0", "start": {"t": {"0": 1}}, "end": {"t": {"0": 2}}}],
        expected_rows=Unknown(reason="not counted"),
    )
    return {
        "lease": json.loads(lease.encode(held)),
        "ledger": json.loads(ledger.format_batch(batch, "holdfast/j/1/o")),
        "transaction": ledger.pack(_LIFE.epoch, batch.id),
    }


def _keys(value: object, at: str) -> Iterator[str]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield f"{at}.{key}"
                if key not in _FREE:
                    yield from _keys(inner, f"{at}.{key}")
        case list():
            for inner in value:
                yield from _keys(inner, f"{at}[]")
        case _:
            return


_FREE = frozenset(
    {
        "source_offsets",
        "began",
        "configuration",
        "settings",
        "offset",
        "start",
        "end",
        "duration_ms",
    }
)
"""Objects whose keys are data, not a format."""


def observe_json(command: str) -> list[str]:
    """Return the keys that a command's JSON has, over one checkpoint per scenario."""
    found: set[str] = set()
    for golden in ONE_OF_EACH:
        done = holdfast(command, str(golden.checkpoint), "--json")
        found.update(_keys(json.loads(done.stdout), ""))
    return sorted(found)


def observe() -> Observed:
    """Return everything that is recorded."""
    return {
        "codes": observe_codes(),
        "digests": observe_digests(),
        "records": observe_records(),
        "inspect": observe_json("inspect"),
        "diagnose": observe_json("diagnose"),
    }


def _missing(recorded: object, found: object, at: str) -> Iterator[str]:
    """Yield each place where something recorded changed or is gone."""
    match recorded, found:
        case Mapping(), Mapping():
            for key, value in recorded.items():
                if key not in found:
                    yield f"{at}.{key} is gone"
                else:
                    yield from _missing(value, found[key], f"{at}.{key}")
        case list(), list():
            yield from (f"{at}: {value} is gone" for value in recorded if value not in found)
        case _:
            if recorded != found:
                yield f"{at} was {recorded} and is {found}"


def _recorded(part: str) -> object:
    return json.loads(RECORDED.read_text("utf-8"))[part]


def test_codes_stay() -> None:
    assert list(_missing(_recorded("codes"), observe_codes(), "codes")) == []


def test_digests_stay() -> None:
    assert list(_missing(_recorded("digests"), observe_digests(), "digests")) == []


def test_records_on_disk_stay() -> None:
    assert list(_missing(_recorded("records"), observe_records(), "records")) == []


@pytest.mark.parametrize("command", ["inspect", "diagnose"])
def test_json_keys_stay(command: str) -> None:
    assert list(_missing(_recorded(command), observe_json(command), command)) == []


if __name__ == "__main__":
    text = json.dumps(observe(), indent=1, sort_keys=True, ensure_ascii=False)
    RECORDED.write_text(text + "\n", "utf-8")
