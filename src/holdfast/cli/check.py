"""`holdfast check`: may the new code start from the old checkpoint?"""

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
def check(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    target: str,
    jobs: tuple[str, ...],
    *,
    as_json: bool,
    master: str | None,
    given: tuple[str, ...],
    debug: bool,
) -> None:
    """Say whether each job of a pipeline may start from its checkpoint. Starts and writes nothing.

    Builds the query of each job, and compares it with the checkpoint and with the query that last
    ran. Ends with 0 if every start is safe, with 1 if a change needs a decision, and with 3 if
    something cannot be read.
    """
    from holdfast.report import check as shown  # the command is to start fast

    found = ops.check(
        ops.load(target), jobs, master=master, given=build.parse_settings(given), debug=debug
    )
    if as_json:
        options.write(json.dumps(shown.to_json(found), indent=2, ensure_ascii=False) + "\n")
    else:
        options.write_lines(shown.to_lines(found))
    context.exit(0 if shown.find_worst(found) is Judgement.SAFE else 1)
