"""What a processor of `transformWithState` keeps: its state variables, as it declares them.

Spark asks it in the same way before a first batch: it calls `init` with a handle of the driver,
which notes what is declared, and then `close`.
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
_NOT_THE_USERS = frozenset({"pyspark", "abc", "builtins", "typing"})


def find_processor(called: object) -> "StatefulProcessor | None":
    """The processor behind the function that Spark calls for it; None where it is no such one."""
    return getattr(getattr(called, "__self__", None), _PROCESSOR, None)


def list_variables(processor: "StatefulProcessor") -> tuple[Term, ...]:
    """The state variables that a processor declares, by name; a copy of it must be given."""
    handle = _Handle()
    processor.init(handle)  # type: ignore[arg-type]
    processor.close()
    return tuple(sorted(handle.declared, key=lambda one: one.name))


def list_methods(processor: "StatefulProcessor") -> Iterator[Callable[..., object]]:
    """The functions that a processor's classes are made of, without those of pyspark."""
    for owner in type(processor).__mro__:
        if owner.__module__.partition(".")[0] not in _NOT_THE_USERS:
            for _, one in sorted(vars(owner).items()):
                if callable(one) and hasattr(one, "__code__"):
                    yield one


class _Handle:
    """What `init` is given: it notes what is declared, and keeps nothing."""

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
        both = f"map<{_format_type(userKeySchema)},{_format_type(valueSchema)}>"
        self._declare(stateName, "MapState", both, ttlDurationMs)

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        self.declared = [one for one in self.declared if one.name != stateName]

    def _declare(self, name: str, kind: str, type_: str, ttl_ms: int | None) -> None:
        ttl = f" {ttl_ms}" if ttl_ms is not None else ""
        self.declared.append(Term(name=name, type=type_, text=f"{kind}{ttl}"))


def _format_type(schema: "Schema") -> str:
    from pyspark.sql.types import StructType

    told = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return format_type(told.jsonValue(), nulls=True)
