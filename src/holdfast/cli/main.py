"""The `holdfast` command: load the subcommand; print an error as one sentence and a hint."""

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


# Python's default, every 700 new objects, spends a tenth of the start-up time on collections.
gc.set_threshold(50_000)


class _Commands(click.Group):
    """A group that imports a subcommand only when it runs, so that each command starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the subcommand with this name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="holdfast %(version)s")
def holdfast() -> None:
    """Restart-proof streaming for Apache Spark."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its exit code."""
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
        message = io.StringIO()
        error.show(message)
        click.echo(_hide_secrets(message.getvalue()), err=True, nl=False)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:  # even an unexpected error is printed as one sentence
        if debug:
            raise
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        _report_error(
            "UNEXPECTED",
            f"{type(error).__name__}: {reason}",
            "run the command again with `--debug` for the stack trace",
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
    """Open `/dev/null` as stdout or stderr if the stream is closed (`>&-`).

    Otherwise the next file to be opened would get the number of the stream, and its output.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _report_error(code: str, message: str, hint: str) -> None:
    from holdfast.cli.options import shows_colour  # imported late, so that commands start fast

    colour = shows_colour(sys.stderr)
    click.echo(click.style(code, fg="red", bold=True) if colour else code, err=True, nl=False)
    click.echo(f": {_hide_secrets(message)}", err=True)
    click.echo(f"hint: {_hide_secrets(hint)}", err=True)


def _write_trace(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the stack trace without secrets: a location or an option in it may contain a key."""
    import traceback

    click.echo(_hide_secrets("".join(traceback.format_exception(kind, error, trace))), err=True)


def _hide_secrets(text: str) -> str:
    from holdfast.report import redact  # imported only after an error, so that commands start fast

    # The whole text before its lines: a private key spans several lines.
    return "\n".join(redact.for_display(line) for line in redact.text(text).split("\n"))
