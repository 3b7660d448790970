"""Write the reference pages from the code, or with `--check` fail if they are stale."""

import sys
from pathlib import Path

import click

from holdfast import errors
from holdfast.cli import main as cli
from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.report import explanation
from holdfast.run.session import settings

FOLDER = Path("docs/reference")


def error_page() -> str:
    """Return the page of all error codes."""
    lines = [
        "# Errors",
        "",
        "Every error has a stable code, one sentence that says what happened, and a hint that says",
        "what to do. The table shows the exit code of the command.",
        "",
        "If the error allows it, holdfast automatically restarts a query that has already run: up",
        "to five times in a row, after a pause that starts at one second and doubles. It also",
        "restarts a query that fails with an unknown error; after the last attempt it reports",
        "`QUERY_FAILED`.",
        "",
        "| code | exit | restarted automatically | meaning |",
        "|---|---|---|---|",
    ]
    for kind in sorted(errors.list_kinds(), key=lambda kind: kind.code):
        again = "yes" if kind.curable_by_restart else "no"
        meaning = (kind.__doc__ or "").splitlines()[0]
        lines.append(f"| `{kind.code}` | {kind.exit_code} | {again} | {meaning} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the page of all Spark and Delta settings that holdfast chooses."""
    lines = [
        "# Settings that holdfast chooses",
        "",
        "The user's own setting always wins: `--set`, the pipeline's `settings`,",
        "`spark-defaults.conf`, and the options of `spark-submit`.",
        "",
        "| setting | value | when | why | gain |",
        "|---|---|---|---|---|",
    ]
    groups = (
        ("always", settings.ALWAYS),
        ("local master", settings.LOCAL),
        ("checkpoints on S3", settings.ON_S3),
        ("Kafka source, as its option", settings.KAFKA_SOURCE),
    )
    for when, group in groups:
        lines += [
            f"| `{setting.key}` | `{setting.value}` | {when} | {setting.why} | {setting.gain} |"
            for setting in group
        ]
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """Return the page with the help of every command."""
    group = cli.holdfast
    # With the group's own settings, which Context does not read by itself: `-h` is one of them.
    context = click.Context(group, info_name="holdfast", **group.context_settings)
    parts = ["# Commands", "", "```", group.get_help(context), "```"]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            inner = click.Context(command, info_name=name, parent=context)
            parts += ["", f"## holdfast {name}", "", "```", command.get_help(inner), "```"]
    return "\n".join(parts) + "\n"


def finding_page() -> str:
    """Return the page of all finding codes."""
    lines = [
        "# Findings",
        "",
        (
            "The findings of `holdfast diagnose` and `holdfast check`. Each code is stable;"
            " `holdfast explain CODE` prints the same text."
        ),
        "",
    ]
    for code in sorted(EXPLANATIONS):
        lines += explanation.to_markdown(code, EXPLANATIONS[code])
    return "\n".join(lines).rstrip() + "\n"


PAGES = {
    "errors.md": error_page,
    "settings.md": settings_page,
    "commands.md": command_page,
    "findings.md": finding_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages; with `--check`, report the stale ones instead."""
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        print(f"stale: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
