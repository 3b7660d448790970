"""What several commands share: options, parsing of option values, and writing to stdout."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import click

from holdfast.errors import OptionInvalid, ReportUnwritten
from holdfast.report.terminal.lines import Line, Part, Style

_CLICK_STYLES: dict[Style, dict[str, str | bool]] = {
    Style.HEAD: {"bold": True},
    Style.GOOD: {"fg": "green"},
    Style.CAREFUL: {"fg": "yellow"},
    Style.BAD: {"fg": "red", "bold": True},
    Style.DIM: {"dim": True},
}
# The largest batch id has 19 digits.
_BATCH = re.compile("[0-9]{1,19}")


class WholeNumber(click.IntRange):
    """A whole number within limits; `several` is an option that takes more than one number."""

    def __init__(self, least: int, several: str = "", most: int | None = None) -> None:
        super().__init__(min=least, max=most)
        self._several = several

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with a message that names the limits."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            several = f"; for a range use `{self._several}`" if self._several else ""
            limits = f"{self.min} or more" if self.max is None else f"{self.min} to {self.max:,}"
            self.fail(f"`{value}` is not a whole number of {limits}{several}", param, ctx)


def expand_home(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a path or URL with `~` expanded, which the shell does not do in `--option=~/path`."""
    return os.path.expanduser(value) if value else value  # noqa: PTH111  a URL is no Path


location = click.argument("location", callback=expand_home, metavar="LOCATION")
target = click.argument("target", metavar="MODULE[:PIPELINE]")
jobs = click.option(
    "--job", "jobs", multiple=True, metavar="NAME", help="Only this job; may be repeated."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
event_log = click.option(
    "--event-log",
    callback=expand_home,
    metavar="PATH",
    help="Spark's event log, or the folder that contains it.",
)
storage = click.option(
    "--storage",
    multiple=True,
    metavar="KEY=VALUE",
    help="A storage option, such as an access key; may be repeated.",
)
master = click.option(
    "--master", metavar="URL", help="Spark master. Default: the configured one, or local[*]."
)
settings = click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated."
)
debug = click.option("--debug", is_flag=True, help="Print full stack traces.")
debug_spark = click.option(
    "--debug", is_flag=True, help="Print Spark's warnings and full stack traces."
)


def parse_pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Parse texts of the form `KEY=VALUE`."""
    pairs = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            # The value is not printed: it may be a secret.
            raise OptionInvalid(
                f"a value of `{option}` is not of the form `KEY=VALUE`",
                hint=f"write it as in `{option} aws_region=eu-central-1`",
            )
        pairs[key] = value
    return pairs


def parse_two_batches(option: str, value: str, batch: int | None, form: str) -> tuple[int, int]:
    """Parse `A:B` into two batch ids; `form` is the value's form in the hint.

    The option and `--batch` exclude each other.
    """
    if batch is not None:
        raise OptionInvalid(
            f"`{option} {value}` and `--batch {batch}` cannot be used together",
            hint=f"use either `--batch N` or `{option} {form}`",
        )
    first, _, second = value.partition(":")
    ids = [int(text) for text in (first, second) if _BATCH.fullmatch(text)]
    if len(ids) < 2:  # noqa: PLR2004
        raise OptionInvalid(
            f"`{option} {value}` does not name two batches as in `{option} 3:7`",
            hint=f"use `--batch N` for one batch or `{option} {form}` for two",
        )
    return ids[0], ids[1]


def shows_colour(stream: TextIO) -> bool:
    """Return whether to use colours: only on a terminal, and not with `NO_COLOR` or `TERM=dumb`."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def write_lines(lines: Iterable[Line]) -> None:
    """Write lines to stdout; on a terminal, wrap and colour them."""
    colour = shows_colour(sys.stdout)
    if sys.stdout.isatty():
        import shutil  # only a terminal has a width

        from holdfast.report.terminal.wrap import wrap_lines

        lines = wrap_lines(lines, shutil.get_terminal_size().columns)
    write("".join(_format(line, colour=colour) + "\n" for line in lines))


def write(text: str) -> None:
    """Write text to stdout as UTF-8, whatever the terminal's own encoding.

    A file name on disk may not be valid UTF-8; its bytes are written as escapes.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader, perhaps `head`, has closed the pipe because it needs no more.
        _discard_output()
    except OSError as error:
        _discard_output()
        raise ReportUnwritten(
            f"cannot write the output to stdout: {error.strerror or error}",
            hint="free some space, or redirect the output to a different place",
        ) from error


def _discard_output() -> None:
    """Send the rest of the output to `/dev/null`: Python would report the error again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _format(line: Sequence[Part], *, colour: bool) -> str:
    if not colour:
        return "".join(part.text for part in line).rstrip()
    return "".join(
        click.style(part.text, **_CLICK_STYLES[part.style])  # type: ignore[arg-type]
        if part.style in _CLICK_STYLES and part.text
        else part.text
        for part in line
    )
