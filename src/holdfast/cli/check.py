"""`holdfast check`: may the new code start from the existing checkpoint?"""

import json

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.model.finding import Judgement
from holdfast.run.session import build


@click.command()
@options.target
@options.jobs
@options.as_json
@options.master
@options.settings
@options.debug_spark
@click.pass_context
def check(  # noqa: PLR0913  one parameter per option
    context: click.Context,
    target: str,
    jobs: tuple[str, ...],
    *,
    as_json: bool,
    master: str | None,
    given: tuple[str, ...],
    debug: bool,
) -> None:
    """Check whether each job may start from its checkpoint.

    Builds the query of each job, and compares it with the checkpoint and with the query that last
    ran. Starts no query and writes nothing.

    Exits with 0 if every start is safe, 1 if a change needs a decision, and 3 if something cannot
    be read.
    """
    from holdfast.report import check as report  # imported late, so that the command starts fast

    checks = ops.check(
        ops.load(target), jobs, master=master, given=build.parse_settings(given), debug=debug
    )
    if as_json:
        options.write(json.dumps(report.to_json(checks), indent=2, ensure_ascii=False) + "\n")
    else:
        options.write_lines(report.to_lines(checks))
    context.exit(0 if report.find_worst(checks) is Judgement.SAFE else 1)
