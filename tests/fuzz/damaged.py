"""One decoder under Hypothesis: `python -m tests.fuzz.damaged NAME SECONDS`."""

import sys
import time

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import seeds
from tests.fuzz.promise import check
from tests.property.test_decoders import mutated

_ROUND = 500


def main() -> None:
    """Try damaged examples for the processor time given, and say how many."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    tried = 0

    @settings(
        max_examples=_ROUND,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated(seeds.of(name)))
    def attempt(data: bytes) -> None:
        nonlocal tried
        tried += 1
        check(name, data)

    first = time.time_ns()
    number = 0
    while time.process_time() < seconds:
        seed(first + number)(attempt)()
        number += 1
    print(tried)  # noqa: T201


if __name__ == "__main__":
    main()
