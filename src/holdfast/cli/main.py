"""The `holdfast` command: finds the subcommand, and turns errors into one sentence and a hint."""

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from types import TracebackType

import click

from holdfast.errors import HoldfastError, name_extra
from holdfast.model.version import VERSION

_COMMANDS = {
    "run": "holdfast.cli.run",
    "jobs": "holdfast.cli.jobs",
    "inspect": "holdfast.cli.inspect",
    "state": "holdfast.cli.state",
    "diagnose": "holdfast.cli.diagnose",
    "check": "holdfast.cli.check",
    "explain": "holdfast.cli.explain",
    "demo": "holdfast.cli.demo",
}


# Python looks for garbage every 700 new objects, which is a tenth of the time that a start takes.
gc.set_threshold(50_000)


class _Commands(click.Group):
    """Imports a subcommand only when it is asked for, so that each starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand of a name."""
        if cmd_name not in _COMMANDS:
            return None
        found = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        return found if isinstance(found, click.Command) else None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="holdfast %(version)s")
def holdfast() -> None:
    """Restart-proof streaming for Apache Spark."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    _reopen_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    if debug:
        sys.excepthook = _write_trace
    try:
        code = _run(given)
    except HoldfastError as error:
        if debug:
            raise
        _report_error(error.code, error.message, error.hint)
        code = error.exit_code
    except click.ClickException as error:
        said_by_click = io.StringIO()
        error.show(said_by_click)
        click.echo(_hide_secrets(said_by_click.getvalue()), err=True, nl=False)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:  # the last resort of a command is one sentence, too
        if debug:
            raise
        said = str(error).strip().splitlines()
        reason = said[0] if said else type(error).__name__
        _report_error(
            "UNEXPECTED", f"{type(error).__name__}: {reason}", "see it whole with `--debug`"
        )
        code = 70
    sys.stdout.flush()
    sys.exit(code if isinstance(code, int) else 0)


def _run(given: list[str]) -> object:
    try:
        return holdfast.main(given, prog_name="holdfast", standalone_mode=False)
    except ModuleNotFoundError as error:
        missing = name_extra(error)
        if missing is None:
            raise
        raise missing from error


def _reopen_closed_streams() -> None:
    """Where stdout or stderr is closed (`>&-`), what is written goes nowhere.

    Otherwise the next file that is opened would get their number.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _report_error(code: str, message: str, hint: str) -> None:
    from holdfast.cli.options import shows_colour  # a command is to start fast

    paint = shows_colour(sys.stderr)
    click.echo(click.style(code, fg="red", bold=True) if paint else code, err=True, nl=False)
    click.echo(f": {_hide_secrets(message)}", err=True)
    click.echo(f"hint: {_hide_secrets(hint)}", err=True)


def _write_trace(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    """The whole stack trace; a location or an option in it may hold a key."""
    import traceback

    click.echo(_hide_secrets("".join(traceback.format_exception(kind, error, where))), err=True)


def _hide_secrets(said: str) -> str:
    # Loaded only where something is wrong: a command is to start fast.
    from holdfast.report import redact

    # Whole first: a private key has several lines.
    return "\n".join(redact.for_display(line) for line in redact.text(said).split("\n"))
