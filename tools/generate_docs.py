"""Write the reference pages from the code, or with `--check` fail where they are stale."""

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
    """Every code that holdfast says no with."""
    lines = [
        "# Errors",
        "",
        "Every error has a stable code, one sentence, and a hint. Exit code of the command beside.",
        "",
        "What is restarted by itself is a query that has run: up to five times in a row, after a",
        "pause that doubles from one second. So is one that fails with what holdfast does not",
        "know; after the last time that is `QUERY_FAILED`.",
        "",
        "| code | exit | restarted by itself | meaning |",
        "|---|---|---|---|",
    ]
    for kind in sorted(errors.list_kinds(), key=lambda one: one.code):
        again = "yes" if kind.curable_by_restart else "no"
        meaning = (kind.__doc__ or "").splitlines()[0]
        lines.append(f"| `{kind.code}` | {kind.exit_code} | {again} | {meaning} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every Spark and Delta setting that holdfast chooses."""
    lines = [
        "# Settings that holdfast chooses",
        "",
        "The user's own setting always wins: `--set`, the pipeline's `settings`,",
        "`spark-defaults.conf`, and what `spark-submit` was given.",
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
            f"| `{one.key}` | `{one.value}` | {when} | {one.why} | {one.gain} |" for one in group
        ]
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """The help of every command."""
    group = cli.holdfast
    # As the program makes it: `-h` is one of the group's own settings, which Context does not ask.
    context = click.Context(group, info_name="holdfast", **group.context_settings)
    parts = ["# Commands", "", "```", group.get_help(context), "```"]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            inner = click.Context(command, info_name=name, parent=context)
            parts += ["", f"## holdfast {name}", "", "```", command.get_help(inner), "```"]
    return "\n".join(parts) + "\n"


def finding_page() -> str:
    """Every code that `holdfast diagnose` and `holdfast check` find something with."""
    lines = [
        "# Findings",
        "",
        (
            "What `holdfast diagnose` and `holdfast check` can find. Each code is stable;"
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
    """Write the pages, or say which are stale."""
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        print(f"stale: {', '.join(stale)}; write them anew with `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
