"""What several commands share: options, pairs of them, and writing to stdout."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import click

from holdfast.errors import OptionInvalid, ReportUnwritten
from holdfast.report.terminal.lines import Line, Part, Style

_PAINTS: dict[Style, dict[str, str | bool]] = {
    Style.HEAD: {"bold": True},
    Style.GOOD: {"fg": "green"},
    Style.CAREFUL: {"fg": "yellow"},
    Style.BAD: {"fg": "red", "bold": True},
    Style.DIM: {"dim": True},
}
# No more digits than the largest batch id has.
_BATCH = re.compile("[0-9]{1,19}")


class WholeNumber(click.IntRange):
    """A whole number, at least so large; where another option takes several, it is named."""

    def __init__(self, least: int, several: str = "", most: int | None = None) -> None:
        super().__init__(min=least, max=most)
        self._several = several

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or what was expected."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            several = f"; for several give `{self._several}`" if self._several else ""
            most = "" if self.max is None else f" and at most {self.max:,}"
            self.fail(
                f"expected a whole number of at least {self.min}{most}, found `{value}`{several}",
                param,
                ctx,
            )


def expand_home(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """A path or URL with `~` written out, also where no shell has seen it."""
    return os.path.expanduser(value) if value else value  # noqa: PTH111  a URL is no Path


location = click.argument("location", callback=expand_home, metavar="LOCATION")
target = click.argument("target", metavar="MODULE[:PIPELINE]")
jobs = click.option(
    "--job", "jobs", multiple=True, metavar="NAME", help="Only this job; may be repeated."
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object for programs.")
event_log = click.option(
    "--event-log",
    callback=expand_home,
    metavar="PATH",
    help="Spark's event log, or the folder that holds it.",
)
storage = click.option(
    "--storage", multiple=True, metavar="KEY=VALUE", help="An option of the storage; a key, say."
)
master = click.option(
    "--master", metavar="URL", help="Spark's master; local[*] if nothing says otherwise."
)
settings = click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="A Spark setting."
)
debug = click.option("--debug", is_flag=True, help="Whole stack traces.")
debug_spark = click.option(
    "--debug", is_flag=True, help="Spark's warnings, and whole stack traces."
)


def parse_pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` texts -> options."""
    found = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OptionInvalid(
                f"expected `{option} KEY=VALUE`, found one without an equals sign",
                hint=f"write it as in `{option} aws_region=eu-central-1`",
            )
        found[key] = value
    return found


def parse_two_batches(option: str, given: str, batch: int | None, form: str) -> tuple[int, int]:
    """`A:B` -> two batch ids; `form` is how the option is written, which excludes `--batch`."""
    first, _, second = given.partition(":")
    ids = [int(one) for one in (first, second) if _BATCH.fullmatch(one)]
    if batch is not None or len(ids) < 2:  # noqa: PLR2004
        raise OptionInvalid(
            f"expected two batches as in `{option} 3:7`, found `{option} {given}`"
            + (f" and `--batch {batch}`" if batch is not None else ""),
            hint=f"give `--batch N` or `{option} {form}`",
        )
    return ids[0], ids[1]


def shows_colour(stream: TextIO) -> bool:
    """Whether colours are shown: on a terminal that knows them, to a person who wants them."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def write_lines(lines: Iterable[Line]) -> None:
    """Lines, painted and wrapped where a terminal shows them."""
    paint = shows_colour(sys.stdout)
    if sys.stdout.isatty():
        import shutil  # only a terminal has a width

        from holdfast.report.terminal.wrap import wrap_lines

        lines = wrap_lines(lines, shutil.get_terminal_size().columns)
    write("".join(_paint(line, paint=paint) + "\n" for line in lines))


def write(text: str) -> None:
    """Text as UTF-8, whatever the terminal's own encoding.

    A file name on disk may be no UTF-8; its bytes are then written as escapes.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader, `head` perhaps, has seen enough.
        _discard_output()
    except OSError as error:
        _discard_output()
        raise ReportUnwritten(
            f"expected to write the report to stdout, found: {error.strerror or error}",
            hint="make room there, or send it to another place",
        ) from error


def _discard_output() -> None:
    """What is left of the output goes nowhere: Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _paint(line: Sequence[Part], *, paint: bool) -> str:
    if not paint:
        return "".join(part.text for part in line).rstrip()
    return "".join(
        click.style(part.text, **_PAINTS[part.style])  # type: ignore[arg-type]
        if part.style in _PAINTS and part.text
        else part.text
        for part in line
    )
