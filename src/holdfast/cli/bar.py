"""A bar on a terminal's stderr while a large checkpoint is listed."""

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from holdfast.gather.inventory.tree import OnProgress

_AFTER_S = 1.0
_EVERY_S = 0.2
_WIDTH = 30


class ProgressBar:
    """Shown where listing takes longer than a second; gone when it ends."""

    def __init__(self) -> None:
        self._paints = sys.stderr.isatty()
        self._next = time.monotonic() + _AFTER_S
        self._shown = False

    def __enter__(self) -> "OnProgress":
        return self._told

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\033[K", err=True, nl=False)

    def _told(self, files: int, share: float) -> None:
        now = time.monotonic()
        if self._paints and now >= self._next:
            self._next, self._shown = now + _EVERY_S, True
            full = round(share * _WIDTH)
            bar = "█" * full + "░" * (_WIDTH - full)
            click.echo(f"\r\033[K{bar} {files:,} files", err=True, nl=False)
