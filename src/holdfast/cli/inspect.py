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
@click.option(
    "--markdown", "as_markdown", is_flag=True, help="Print Markdown, for an incident ticket."
)
@click.option("--html", "as_html", is_flag=True, help="Print one HTML page with charts.")
@click.option(
    "--batch",
    type=options.WholeNumber(0, several="--compare A:B"),
    metavar="N",
    help="Show what batch N consumed.",
)
@click.option(
    "--compare", metavar="A:B", help="Show what was consumed after batch A, up to batch B."
)
@options.event_log
@options.storage
@options.debug
def inspect(  # noqa: PLR0913  one parameter per option
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
    """Show what is in a checkpoint.

    Prints nine facts, each with the place it was read from. Changes nothing.

    LOCATION is a checkpoint or a folder that contains checkpoints: a path, or a URL with the scheme
    file, s3, s3a, gs, abfss or hdfs.
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
        evidence = ops.inspect(
            location,
            storage=given,
            event_log=event_log,
            now_ms=round(time.time() * 1000),
            on_progress=on_progress,
        )
    if isinstance(evidence, Evidence):
        _show(evidence, form)
    else:
        _show_rows(evidence, location, form)


def _choose_form(flags: Mapping[str, bool]) -> str | None:
    forms = [name for name, is_set in flags.items() if is_set]
    if len(forms) > 1:
        raise OptionInvalid(
            f"{' and '.join(f'`--{name}`' for name in forms)} cannot be used together",
            hint=f"run the command once per form, first with `--{forms[0]}`",
        )
    return forms[0] if forms else None


def _parse_range(batch: int | None, compare: str | None) -> tuple[int | None, int]:
    if compare is None:
        return None, batch or 0
    return options.parse_two_batches("--compare", compare, batch, "A:B")


def _show(evidence: Evidence, form: str | None) -> None:
    # Only the report that is printed is imported, so that the command starts fast.
    if form == "json":
        from holdfast.report import document

        _write_json(document.to_json(evidence))
    elif form == "markdown":
        from holdfast.report import markdown

        options.write(markdown.render(evidence))
    elif form == "html":
        from holdfast.report.html import page

        options.write(page.render(evidence))
    else:
        from holdfast.report.terminal import text

        options.write_lines(text.to_lines(evidence))


def _show_rows(checkpoints: Checkpoints, location: str, form: str | None) -> None:
    from holdfast.report import listing
    from holdfast.storage import urls

    base = urls.to_canonical(location)
    if form == "json":
        _write_json(listing.to_json(checkpoints, base))
    elif form == "markdown":
        options.write(listing.to_markdown(checkpoints, base) + "\n")
    elif form == "html":
        command = shlex.join(["holdfast", "inspect", "--html", checkpoints.rows[0].location])
        raise OptionInvalid(
            "`--html` cannot show a folder of checkpoints; text, `--json` and `--markdown` can",
            hint=f"show one checkpoint: `{command}`",
        )
    else:
        options.write_lines(listing.to_lines(checkpoints, base))


def _show_detail(detail: BatchDetail, location: str, form: str | None, *, compared: bool) -> None:
    from holdfast.report import batches
    from holdfast.storage import urls

    if form == "json":
        _write_json(batches.to_json(detail, urls.to_canonical(location), compared=compared))
    elif form is None:
        options.write_lines(batches.to_lines(detail, compared=compared))
    else:
        command = shlex.join(["holdfast", "inspect", f"--{form}", location])
        raise OptionInvalid(
            f"`--{form}` cannot show single batches; text and `--json` can",
            hint=f"show the whole checkpoint: `{command}`",
        )


def _write_json(document: Json) -> None:
    options.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
