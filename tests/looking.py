"""Looking at checkpoints from tests, the way the command does, and what a folder looked like."""

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast import ops
from holdfast.model.evidence import Evidence
from holdfast.report import document, markdown
from holdfast.report.html import page
from holdfast.report.terminal import lines, text

NOW_MS = 1_767_300_000_000


def evidence(
    location: Path | str, storage: Mapping[str, str] | None = None, event_log: str | None = None
) -> Evidence:
    """The evidence of one checkpoint."""
    found = ops.inspect(
        str(location),
        storage=storage or {},
        event_log=event_log,
        now_ms=NOW_MS,
        on_progress=lambda *_: None,
    )
    assert isinstance(found, Evidence)
    return found


def rendered(found: Evidence) -> tuple[str, ...]:
    """Every form of the report; making them is a check of its own."""
    return (
        str(document.to_json(found)),
        lines.strip_styles(text.to_lines(found)),
        markdown.render(found),
        page.render(found),
    )


Stamp = tuple[int, int, int, int, bytes]
_QUIET = os.O_RDONLY | os.O_NOATIME


def stamps(folder: Path) -> dict[str, Stamp]:
    """Every time stamp and every byte below a folder, the folder itself included.

    Taking them leaves no trace either, or the test would see its own steps.
    """
    status = folder.stat()
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    number = os.open(folder, _QUIET)
    if not folder.is_dir():
        with os.fdopen(number, "rb") as file:
            return {str(folder): (*times, file.read())}
    try:
        names = sorted(os.listdir(number))  # noqa: PTH208  of a folder that is open
    finally:
        os.close(number)
    found: dict[str, Stamp] = {str(folder): (*times, b"")}
    for name in names:
        found |= stamps(folder / name)
    return found
