"""How many rows a plan gave, as Spark reports it a moment after the plan ran."""

import time
from typing import TYPE_CHECKING

from holdfast.errors import SinkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import Observation

_SECONDS = 120
_PAUSE = 0.005


def await_count(observation: "Observation", table: str) -> int:
    """Return the first value of an observation, which must be a count.

    Spark drops the report if its queue of events is full: then the batch has to run again.
    """
    java = observation._jo  # noqa: SLF001  PySpark's own method waits for ever
    assert java is not None  # noqa: S101  the plan that has it was run
    ends = time.monotonic() + _SECONDS
    while (found := java.getRowOrEmpty()).isEmpty():
        if time.monotonic() > ends:
            raise SinkUnavailable(
                f"cannot write the batch to `{table}`: Spark did not report within {_SECONDS}"
                " seconds how many rows the batch has",
                hint="let the batch run again; nothing of it was written",
            )
        time.sleep(_PAUSE)
    return int(found.get().getLong(0))
