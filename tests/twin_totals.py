"""How many generated cases two Delta writers have agreed on, as the sink's code stands now."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.sinks import delta
from tests.code_digest import digest_code

_FILE = Path(__file__).with_name("twin_totals.json")
_CODE = Path(delta.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Seconds and cases of one generator, and the code that they were tried on."""

    code: str
    seconds: float = 0.0
    cases: int = 0
    next_seed: int = 0


def read_total(name: str) -> Total:
    """Return what was tried; only the next seed is kept when the code has changed since."""
    kept = json.loads(_FILE.read_text()).get(name) if _FILE.exists() else None
    if kept is None:
        return Total(code=_digest())
    total = Total(**kept)
    same = total.code == _digest()
    return total if same else Total(code=_digest(), next_seed=total.next_seed)


def add_case(name: str, seconds: float) -> None:
    """Record one more case on which both writers agreed."""
    had = read_total(name)
    more = replace(
        had,
        seconds=round(had.seconds + seconds, 1),
        cases=had.cases + 1,
        next_seed=had.next_seed + 1,
    )
    kept = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    _FILE.write_text(json.dumps(kept | {name: asdict(more)}, indent=1, sort_keys=True) + "\n")


def _digest() -> str:
    return digest_code(_CODE.glob("*.py"))
