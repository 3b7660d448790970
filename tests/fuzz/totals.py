"""How long each decoder has been fuzzed, as its code stands now."""

import json
import sys
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType

from holdfast import decode
from tests.code_digest import digest_code
from tests.formats import FORMATS

_FILE = Path(__file__).with_name("totals.json")
_CODE = Path(decode.__file__).parent


@dataclass(frozen=True, slots=True)
class Total:
    """Processor time and inputs of one decoder, and the code that they were tried on."""

    code: str
    seconds: float = 0.0
    guided_seconds: float = 0.0
    damaged: int = 0
    guided: int = 0


def of(name: str) -> Total:
    """What has been tried; nothing, if the code is another since."""
    kept = _kept().get(name)
    return kept if kept is not None and kept.code == _code(name) else Total(_code(name))


def add(name: str, seconds: float, tried: int, *, guided: bool) -> None:
    """Add one turn."""
    had = of(name)
    more = replace(
        had,
        seconds=round(had.seconds + seconds, 1),
        guided_seconds=round(had.guided_seconds + seconds * guided, 1),
        damaged=had.damaged + tried * (not guided),
        guided=had.guided + tried * guided,
    )
    everything = {one: asdict(total) for one, total in (_kept() | {name: more}).items()}
    ordered = {one: everything[one] for one in FORMATS if one in everything}
    _FILE.write_text(json.dumps(ordered, indent=1) + "\n")


def line(name: str) -> str:
    """One decoder, for people."""
    had = of(name)
    return (
        f"{name:26} {had.seconds:>7,.0f} s {had.damaged:>11,} damaged "
        f"{had.guided:>12,} guided  no exception"
    )


def _kept() -> dict[str, Total]:
    found = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    return {name: Total(**total) for name, total in found.items()}


@cache
def _code(name: str) -> str:
    """A digest of the modules of `holdfast.decode` that the examples of a decoder run through."""
    reached: set[Path] = set()

    def notice(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            reached.add(Path(frame.f_code.co_filename))

    sys.setprofile(notice)
    try:
        for example in FORMATS[name].examples:
            FORMATS[name].decode(example)
    finally:
        sys.setprofile(None)
    return digest_code(one for one in reached if one.parent == _CODE)
