"""`holdfast state`: rows of a stateful operator."""

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

# One less than Spark's own maximum: one more row is read, to know whether there are more.
MOST_ROWS = (1 << 31) - 2


@click.command()
@options.location
@click.option(
    "--operator",
    type=options.WholeNumber(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of the stateful operator.",
)
@click.option(
    "--batch",
    type=options.WholeNumber(0, several="--changes FROM:TO"),
    metavar="N",
    help="Show the state after batch N. Default: the last committed batch.",
)
@click.option("--changes", metavar="FROM:TO", help="Show what batches FROM to TO changed.")
@click.option(
    "--limit",
    type=options.WholeNumber(1, most=MOST_ROWS),
    default=20,
    show_default=True,
    metavar="N",
    help="At most N rows from each part of the state.",
)
@options.as_json
@options.storage
@options.debug_spark
def state(  # noqa: PLR0913  one parameter per option
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
    """Show rows of the state of a query.

    Copies the state of the operator and reads the copy with Spark. Changes nothing. Needs Java and
    Spark 4.0 or later.
    """
    # SIGTERM must also delete the copy of the state.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = ops.read_state(
        location,
        storage=options.parse_pairs(storage, "--storage"),
        operator=operator,
        batch=batch,
        changes=_parse_range(batch, changes),
        limit=limit,
        debug=debug,
    )
    if as_json:
        document = redact.value(_to_document(report))
        options.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        options.write_lines(_format_lines(report))


def _to_document(report: ops.StateReport) -> Json:
    name = report.operator.name
    return {
        "format": 1,
        "location": report.location,
        "operator": report.operator.operator,
        "name": name.value if isinstance(name, Known) else None,
        "batch": report.query.batch,
        "changes": None if report.query.changes is None else list(report.query.changes),
        "limit": report.query.limit,
        "cut": report.rows.is_cut,
        "rows": [
            {
                "part": row.part,
                "partition": row.partition,
                "key": _parse_text(row.key),
                "value": _parse_text(row.value),
                "batch": row.batch,
                "change": row.change,
            }
            for row in report.rows.rows
        ],
    }


def _format_lines(report: ops.StateReport) -> Iterator[Line]:
    """Yield a title, the rows, and a note if there are more rows."""
    name, query = report.operator.name, report.query
    label = f" ({name.value})" if isinstance(name, Known) else ""
    batches = (
        f"after batch {query.batch}"
        if query.changes is None
        else f"changes of batches {query.changes[0]} to {query.changes[1]}"
    )
    yield (Part(f"operator {report.operator.operator}{label}, {batches}", Style.HEAD),)
    heads = ("part", "partition", "batch", "change", "key", "value")
    cells = [
        (
            row.part,
            str(row.partition),
            "" if query.changes is None else str(row.batch),
            row.change,
            row.key,
            row.value,
        )
        for row in report.rows.rows
    ]
    yield from table.to_lines(heads, cells)
    if report.rows.is_cut:
        more = min(query.limit * 10, MOST_ROWS)
        note = f"more rows exist than `--limit {query.limit}`; show more with `--limit {more}`"
        yield (Part(note, Style.CAREFUL),)


def _parse_text(text: str) -> Json:
    return parse(text) if text else None


def _parse_range(batch: int | None, changes: str | None) -> tuple[int, int] | None:
    if changes is None:
        return None
    first, last = options.parse_two_batches("--changes", changes, batch, "FROM:TO")
    if first > last:
        raise OptionInvalid(
            f"`--changes {changes}` does not begin with the earlier batch",
            hint=f"swap the two: `--changes {last}:{first}`",
        )
    return first, last
