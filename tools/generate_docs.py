"""Generate the reference pages from the code; with `--check`, fail if a page is stale."""

import json
import sys
from pathlib import Path

import click

from holdfast import errors
from holdfast.cli import main as cli
from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.report import explanation
from holdfast.run.session import settings

FOLDER = Path("docs/reference")
RESULTS = Path("bench/results.json")
_WHOLE = 100


def make_error_page() -> str:
    """Return the page of all error codes."""
    lines = [
        "# Errors",
        "",
        "Every error has a stable code, one sentence, and a hint. `exit` is the exit code of the",
        "command.",
        "",
        "A query that has already run is restarted automatically: up to five times in a row, after",
        "a pause that starts at one second and doubles. An error that holdfast does not know is",
        "also retried; after the last attempt it is reported as `QUERY_FAILED`.",
        "",
        "| code | exit | restarted automatically | meaning |",
        "|---|---|---|---|",
    ]
    for kind in sorted(errors.list_kinds(), key=lambda kind: kind.code):
        is_restarted = "yes" if kind.curable_by_restart else "no"
        meaning = (kind.__doc__ or "").splitlines()[0]
        lines.append(f"| `{kind.code}` | {kind.exit_code} | {is_restarted} | {meaning} |")
    return "\n".join(lines) + "\n"


def make_settings_page() -> str:
    """Return the page of all Spark and Delta settings that holdfast chooses."""
    lines = [
        "# Settings that holdfast chooses",
        "",
        "Your own setting always wins: `--set`, the pipeline's `settings`,",
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
            f"| `{setting.key}` | `{setting.value}` | {when} | {setting.why} | {setting.gain} |"
            for setting in group
        ]
    return "\n".join(lines) + "\n"


def make_command_page() -> str:
    """Return the page with the help of every command."""
    group = cli.holdfast
    # Like the program: `-h` is one of the group's settings, which Context does not read by itself.
    context = click.Context(group, info_name="holdfast", **group.context_settings)
    parts = ["# Commands", "", "```", group.get_help(context), "```"]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            inner = click.Context(command, info_name=name, parent=context)
            parts += ["", f"## holdfast {name}", "", "```", command.get_help(inner), "```"]
    return "\n".join(parts) + "\n"


def make_finding_page() -> str:
    """Return the page of all codes of `holdfast diagnose` and `holdfast check`."""
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


def _format_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.3g}"


def make_benchmark_page() -> str:
    """Return the page of the last results of `make bench`, from `bench/results.json`."""
    measured = json.loads(RESULTS.read_text())
    lines = [
        "# Benchmarks",
        "",
        f"Measured by `make bench` on {measured['machine']['cores']} cores.",
        "All sides of a comparison take turns in one run. A ratio is the median over the rounds,",
        "with the smallest and the largest; the last column has the median of each side.",
        "",
        "| what | measured | required | sides |",
        "|---|---|---|---|",
    ]
    for result in measured["results"]:
        low, high = result["spread"]
        sides = ", ".join(
            f"{name} {_format_figure(side['median'])}" for name, side in result["samples"].items()
        )
        lines.append(
            f"| {result['name']} | {result['ratio']:.3g} ({low:.3g} to {high:.3g})"
            f" | {result['wanted']} | {sides} {result['unit']} |"
        )
    return "\n".join(lines) + "\n"


PAGES = {
    "benchmarks.md": make_benchmark_page,
    "errors.md": make_error_page,
    "settings.md": make_settings_page,
    "commands.md": make_command_page,
    "findings.md": make_finding_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or print which of them are stale and return 1."""
    stale = []
    for name, make_page in PAGES.items():
        path, text = FOLDER / name, make_page()
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        print(f"stale: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
