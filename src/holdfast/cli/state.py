"""`holdfast state`: the rows of a stateful operator."""

import json

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.errors import OptionInvalid
from holdfast.model.json import Json, parse
from holdfast.report import redact, table


@click.command()
@click.argument("location", metavar="LOCATION")
@click.option(
    "--operator",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The number of the stateful operator.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=0),
    metavar="N",
    help="The state after batch N; the last committed one if not said.",
)
@click.option("--changes", metavar="FROM:TO", help="What the batches FROM to TO have changed.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="At most N rows, of each part of the state.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for programs.")
@click.option(
    "--storage", multiple=True, metavar="KEY=VALUE", help="An option of the storage; a key, say."
)
@click.option("--debug", is_flag=True, help="Spark's warnings, and whole stack traces.")
def state(  # noqa: PLR0913  one parameter an option
    location: str,
    *,
    operator: int,
    batch: int | None,
    changes: str | None,
    limit: int,
    as_json: bool,
    storage: tuple[str, ...],
    debug: bool,
) -> None:
    """Show rows of the state of a checkpoint, through Spark, from a copy. Changes nothing.

    This one needs Spark 4.0 or later and Java, and copies the state of the operator first.
    """
    rows = ops.state(
        location,
        storage=options.pairs(storage, "--storage"),
        operator=operator,
        batch=batch,
        changes=_range(batch, changes),
        limit=limit,
        debug=debug,
    )
    if as_json:
        shown: list[Json] = [
            {
                "part": row.part,
                "partition": row.partition,
                "key": _parsed(row.key),
                "value": _parsed(row.value),
                "batch": row.batch,
                "change": row.change,
            }
            for row in rows
        ]
        found = redact.value(
            {"format": 1, "location": location, "operator": operator, "rows": shown}
        )
        options.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return
    heads = ("part", "partition", "batch", "change", "key", "value")
    cells = [
        (
            row.part,
            str(row.partition),
            "" if row.batch is None else str(row.batch),
            row.change,
            row.key,
            row.value,
        )
        for row in rows
    ]
    options.write_lines(table.lines(heads, cells))


def _parsed(text: str) -> Json:
    return parse(text) if text else None


def _range(batch: int | None, changes: str | None) -> tuple[int, int] | None:
    if changes is None:
        return None
    first, _, last = changes.partition(":")
    if batch is not None or not (first.isdecimal() and last.isdecimal()):
        raise OptionInvalid(
            f"expected two batches as in `--changes 3:7`, found `--changes {changes}`"
            + (f" and `--batch {batch}`" if batch is not None else ""),
            hint="give `--batch N` or `--changes FROM:TO`",
        )
    return int(first), int(last)
