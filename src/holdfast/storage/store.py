"""The port that reads and writes storage: four verbs. A write can demand that the name is free."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """No file or folder has this name."""

    path: str


class Store(Protocol):
    """A folder of named byte strings. Names are relative and use `/`.

    Every method raises StorageUnavailable when the storage does not answer.
    """

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """Return the whole content, or its last `last` bytes."""
        ...

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        """Write the whole content at once; with `create`, only if the name is free.

        Return whether it was written. If two callers create the same name at the same time, exactly
        one gets True. The lease depends on this.
        """
        ...

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files and folders directly in a folder, sorted.

        Return no names if the folder does not exist.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete one file, if it exists."""
        ...


class Folder(Store, Protocol):
    """A Store that also knows the size of a file; every implementation does."""

    def size(self, path: str) -> int:
        """Return the size of a file that exists, in bytes."""
        ...
