"""`holdfast run`: run the jobs of a pipeline."""

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.report import redact
from holdfast.run.session import build


@click.command()
@options.target
@options.jobs
@click.option("--once", is_flag=True, help="Process the data that is available now, then stop.")
@options.master
@options.settings
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a batch may take to finish after SIGTERM or SIGINT.",
)
@click.option("--dev", is_flag=True, help="Allow a checkpoint base on temporary storage.")
@click.option(
    "--accept",
    "accepted",
    multiple=True,
    metavar="CODE",
    help="Start despite this finding or error; may be repeated.",
)
@click.option(
    "--lease",
    "lease_seconds",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a silent driver keeps its lease.",
)
@options.debug_spark
def run(  # noqa: PLR0913  one parameter per option
    target: str,
    jobs: tuple[str, ...],
    *,
    once: bool,
    master: str | None,
    given: tuple[str, ...],
    grace: float,
    dev: bool,
    accepted: tuple[str, ...],
    lease_seconds: float,
    debug: bool,
) -> None:
    """Run the jobs of a pipeline.

    Each job has its own checkpoint, and writes each batch to its sinks exactly once.

    MODULE is a Python module or file that declares a Pipeline.
    """
    ops.run(
        ops.load(target),
        jobs,
        master=master,
        given=build.parse_settings(given),
        once=once,
        grace=grace,
        dev=dev,
        accepted=accepted,
        lease_seconds=lease_seconds,
        debug=debug,
        say=lambda text: click.echo(redact.for_display(text), err=True),
    )
