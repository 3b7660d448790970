"""A processor of `transformWithState` -> the state variables that it declares.

Spark finds them in the same way before the first batch: it calls `init` with a handle that notes
each declaration, and then `close`.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from holdfast.decode.plan_terms import format_type
from holdfast.model.fingerprint import Term

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    Schema = StructType | str

_PROCESSOR = "_stateful_processor"
_LIBRARIES = frozenset({"pyspark", "abc", "builtins", "typing"})


def find_processor(called: object) -> "StatefulProcessor | None":
    """Return the processor behind a function that Spark calls; None for any other function."""
    return getattr(getattr(called, "__self__", None), _PROCESSOR, None)


def list_variables(processor: "StatefulProcessor") -> tuple[Term, ...]:
    """Return the state variables that a processor declares, by name.

    Pass a copy of the processor: its `init` and `close` are called.
    """
    handle = _Handle()
    processor.init(handle)  # type: ignore[arg-type]
    processor.close()
    return tuple(sorted(handle.declared, key=lambda variable: variable.name))


def list_methods(processor: "StatefulProcessor") -> Iterator[Callable[..., object]]:
    """Yield the functions in a processor's classes, without those of pyspark."""
    for owner in type(processor).__mro__:
        if owner.__module__.partition(".")[0] not in _LIBRARIES:
            for _, member in sorted(vars(owner).items()):
                if callable(member) and hasattr(member, "__code__"):
                    yield member


class _Handle:
    """The argument of `init`: it notes each declaration, and stores no state."""

    def __init__(self) -> None:
        self.declared: list[Term] = []

    # The names are Spark's.
    def getValueState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: "Schema",
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        self._declare(stateName, "ValueState", _format_type(schema), ttlDurationMs)

    def getListState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: "Schema",
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        self._declare(stateName, "ListState", _format_type(schema), ttlDurationMs)

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: "Schema",  # noqa: N803
        valueSchema: "Schema",  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> None:
        map_type = f"map<{_format_type(userKeySchema)},{_format_type(valueSchema)}>"
        self._declare(stateName, "MapState", map_type, ttlDurationMs)

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        self.declared = [variable for variable in self.declared if variable.name != stateName]

    def _declare(self, name: str, kind: str, type_: str, ttl_ms: int | None) -> None:
        ttl = f" {ttl_ms}" if ttl_ms is not None else ""
        self.declared.append(Term(name=name, type=type_, text=f"{kind}{ttl}"))


def _format_type(schema: "Schema") -> str:
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return format_type(struct.jsonValue(), nulls=True)
