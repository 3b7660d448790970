"""The port to storage: four verbs, of which only `create` is conditional."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """There is nothing under that name."""

    path: str


class Store(Protocol):
    """A folder of named byte strings. Names are relative and use `/`.

    Every method raises StorageUnavailable when the storage does not answer.
    """

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """The whole content, or its last so many bytes."""
        ...

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Put the content whole; with `create`, only if the name is free.

        Returns whether it was written. Of two callers that create one name at once, exactly one
        is told True: the lease stands on this.
        """
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of files and folders directly in a folder, sorted; none without a folder."""
        ...

    def delete(self, path: str) -> None:
        """Remove one file; nothing happens if there is none."""
        ...


class Folder(Store, Protocol):
    """A Store that also tells the size of a file; every implementation is one."""

    def size(self, path: str) -> int:
        """How many bytes a file has that is there."""
        ...
