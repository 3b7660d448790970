"""`holdfast state`: the rows of a stateful operator."""

import json
import signal
from collections.abc import Iterator

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.errors import OptionInvalid
from holdfast.model.fact import Known
from holdfast.model.json import Json, parse
from holdfast.report import redact
from holdfast.report.terminal import table
from holdfast.report.terminal.lines import Line, Part, Style

# One less than Spark's own: it is asked for one row more, which tells whether there are any.
MOST_ROWS = (1 << 31) - 2


@click.command()
@options.location
@click.option(
    "--operator",
    type=options.WholeNumber(0),
    default=0,
    show_default=True,
    metavar="N",
    help="The number of the stateful operator.",
)
@click.option(
    "--batch",
    type=options.WholeNumber(0, several="--changes FROM:TO"),
    metavar="N",
    help="The state after batch N; the last committed one if not said.",
)
@click.option("--changes", metavar="FROM:TO", help="What the batches FROM to TO have changed.")
@click.option(
    "--limit",
    type=options.WholeNumber(1, most=MOST_ROWS),
    default=20,
    show_default=True,
    metavar="N",
    help="At most N rows, of each part of the state.",
)
@options.as_json
@options.storage
@options.debug_spark
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
    # Ended in any way, it takes its copy of the state along.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shown = ops.read_state(
        location,
        storage=options.parse_pairs(storage, "--storage"),
        operator=operator,
        batch=batch,
        changes=_parse_range(batch, changes),
        limit=limit,
        debug=debug,
    )
    if as_json:
        found = redact.value(_to_document(shown))
        options.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        options.write_lines(_format_lines(shown))


def _to_document(shown: ops.StateShown) -> Json:
    name = shown.operator.name
    return {
        "format": 1,
        "location": shown.location,
        "operator": shown.operator.operator,
        "name": name.value if isinstance(name, Known) else None,
        "batch": shown.wanted.batch,
        "changes": None if shown.wanted.changes is None else list(shown.wanted.changes),
        "limit": shown.wanted.limit,
        "cut": shown.rows.cut,
        "rows": [
            {
                "part": row.part,
                "partition": row.partition,
                "key": _parse_text(row.key),
                "value": _parse_text(row.value),
                "batch": row.batch,
                "change": row.change,
            }
            for row in shown.rows.shown
        ],
    }


def _format_lines(shown: ops.StateShown) -> Iterator[Line]:
    """What is shown, the rows, and whether there are more."""
    name, wanted = shown.operator.name, shown.wanted
    named = f" ({name.value})" if isinstance(name, Known) else ""
    what = (
        f"after batch {wanted.batch}"
        if wanted.changes is None
        else f"changes of the batches {wanted.changes[0]} to {wanted.changes[1]}"
    )
    yield (Part(f"operator {shown.operator.operator}{named}, {what}", Style.HEAD),)
    heads = ("part", "partition", "batch", "change", "key", "value")
    cells = [
        (
            row.part,
            str(row.partition),
            "" if wanted.changes is None else str(row.batch),
            row.change,
            row.key,
            row.value,
        )
        for row in shown.rows.shown
    ]
    yield from table.to_lines(heads, cells)
    if shown.rows.cut:
        more = min(wanted.limit * 10, MOST_ROWS)
        cut = f"cut at `--limit {wanted.limit}`; see more with `--limit {more}`"
        yield (Part(cut, Style.CAREFUL),)


def _parse_text(text: str) -> Json:
    return parse(text) if text else None


def _parse_range(batch: int | None, changes: str | None) -> tuple[int, int] | None:
    if changes is None:
        return None
    first, last = options.parse_two_batches("--changes", changes, batch, "FROM:TO")
    if first > last:
        raise OptionInvalid(
            f"expected the earlier batch first, found `--changes {changes}`",
            hint=f"turn it round: `--changes {last}:{first}`",
        )
    return first, last
