"""A progress bar on stderr, shown on a terminal while a large checkpoint is listed."""

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
    """A bar that appears if listing takes longer than a second, and disappears at the end."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _AFTER_S
        self._shown = False

    def __enter__(self) -> "OnProgress":
        return self._draw

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\033[K", err=True, nl=False)

    def _draw(self, files: int, share: float) -> None:
        now = time.monotonic()
        if self._on_terminal and now >= self._next:
            self._next, self._shown = now + _EVERY_S, True
            full = round(share * _WIDTH)
            bar = "█" * full + "░" * (_WIDTH - full)
            click.echo(f"\r\033[K{bar} {files:,} files", err=True, nl=False)
