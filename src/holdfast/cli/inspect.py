"""`holdfast inspect`: what is in a checkpoint."""

import json
import shlex
import time
from collections.abc import Mapping

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.cli.bar import ProgressBar
from holdfast.errors import OptionInvalid
from holdfast.model.evidence import BatchDetail, Checkpoints, Evidence
from holdfast.model.json import Json


@click.command()
@options.location
@options.as_json
@click.option("--markdown", "as_markdown", is_flag=True, help="A page for an incident ticket.")
@click.option("--html", "as_html", is_flag=True, help="One HTML file with charts.")
@click.option(
    "--batch",
    type=options.WholeNumber(0, several="--compare A:B"),
    metavar="N",
    help="What batch N consumed.",
)
@click.option("--compare", metavar="A:B", help="What lies between the batches A and B.")
@options.event_log
@options.storage
@options.debug
def inspect(  # noqa: PLR0913  one parameter an option
    location: str,
    *,
    as_json: bool,
    as_markdown: bool,
    as_html: bool,
    batch: int | None,
    compare: str | None,
    event_log: str | None,
    storage: tuple[str, ...],
    debug: bool,  # noqa: ARG001  the entry point reads it
) -> None:
    """Show what is in a checkpoint: nine facts, each with where it was read. Changes nothing.

    LOCATION is a checkpoint, or a folder that checkpoints lie in: a path, or a URL with file, s3,
    s3a, gs, abfss or hdfs.
    """
    form = _choose_form({"json": as_json, "markdown": as_markdown, "html": as_html})
    given = options.parse_pairs(storage, "--storage")
    if batch is not None or compare is not None:
        after, last = _parse_range(batch, compare)
        detail = ops.inspect_batch(
            location, storage=given, event_log=event_log, batch=last, after=after
        )
        _show_detail(detail, location, form, compared=after is not None)
        return
    with ProgressBar() as on_progress:
        found = ops.inspect(
            location,
            storage=given,
            event_log=event_log,
            now_ms=round(time.time() * 1000),
            on_progress=on_progress,
        )
    if isinstance(found, Evidence):
        _show(found, form)
    else:
        _show_rows(found, location, form)


def _choose_form(asked: Mapping[str, bool]) -> str | None:
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise OptionInvalid(
            f"expected one form, found {' and '.join(f'`--{name}`' for name in chosen)}",
            hint=f"run it once for each, with `--{chosen[0]}` first",
        )
    return chosen[0] if chosen else None


def _parse_range(batch: int | None, compare: str | None) -> tuple[int | None, int]:
    if compare is None:
        return None, batch or 0
    return options.parse_two_batches("--compare", compare, batch, "A:B")


def _show(found: Evidence, form: str | None) -> None:
    # Each report is loaded only where it is shown: the command is to start fast.
    if form == "json":
        from holdfast.report import document

        _write_json(document.to_json(found))
    elif form == "markdown":
        from holdfast.report import markdown

        options.write(markdown.render(found))
    elif form == "html":
        from holdfast.report.html import page

        options.write(page.render(found))
    else:
        from holdfast.report.terminal import text

        options.write_lines(text.to_lines(found))


def _show_rows(found: Checkpoints, location: str, form: str | None) -> None:
    from holdfast.report import listing
    from holdfast.storage import urls

    base = urls.to_canonical(location)
    if form == "json":
        _write_json(listing.to_json(found, base))
    elif form == "markdown":
        options.write(listing.to_markdown(found, base) + "\n")
    elif form == "html":
        instead = shlex.join(["holdfast", "inspect", "--html", found.rows[0].location])
        raise _make_form_error(
            "text, `--json` or `--markdown` for a folder of checkpoints", form, instead
        )
    else:
        options.write_lines(listing.to_lines(found, base))


def _show_detail(detail: BatchDetail, location: str, form: str | None, *, compared: bool) -> None:
    from holdfast.report import batches
    from holdfast.storage import urls

    if form == "json":
        _write_json(batches.to_json(detail, urls.to_canonical(location), compared=compared))
    elif form is None:
        options.write_lines(batches.to_lines(detail, compared=compared))
    else:
        instead = shlex.join(["holdfast", "inspect", f"--{form}", location])
        raise _make_form_error("text or `--json` for one batch, or two", form, instead)


def _make_form_error(expected: str, form: str, instead: str) -> OptionInvalid:
    return OptionInvalid(
        f"expected {expected}, found `--{form}`", hint=f"see the whole: `{instead}`"
    )


def _write_json(shown: Json) -> None:
    options.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
