"""`holdfast diagnose`: what will a restart do, and what speaks against it?"""

import json
import re
import time

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.cli.bar import ProgressBar
from holdfast.errors import OptionInvalid
from holdfast.model.finding import Judgement
from holdfast.model.spark_version import SparkVersion
from holdfast.spark import versions

_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?")


@click.command()
@options.location
@options.as_json
@click.option(
    "--spark",
    metavar="VERSION",
    help=f"The Spark that will start it, {versions.PREDICTED}; else as it ran.",
)
@click.option(
    "--async-progress", "asynchronous", is_flag=True, help="It starts with asynchronous tracking."
)
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting that it starts with."
)
@click.option("--kafka", default="", metavar="SERVERS", help="Ask this cluster what it still has.")
@options.event_log
@options.storage
@options.debug
@click.pass_context
def diagnose(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    location: str,
    *,
    as_json: bool,
    spark: str | None,
    asynchronous: bool,
    given: tuple[str, ...],
    kafka: str,
    event_log: str | None,
    storage: tuple[str, ...],
    debug: bool,  # noqa: ARG001  the entry point reads it
) -> None:
    """Say what a restart will do with a checkpoint, and what speaks against it. Changes nothing.

    Ends with 0 if a start is safe, with 1 if a finding needs a decision, with 2 if there is no
    checkpoint, and with 3 if it cannot be read.
    """
    with ProgressBar() as on_progress:
        found = ops.diagnose(
            location,
            storage=options.parse_pairs(storage, "--storage"),
            event_log=event_log,
            spark=_parse_version(spark),
            asynchronous=asynchronous,
            asked=options.parse_pairs(given, "--set"),
            kafka=kafka,
            now_ms=round(time.time() * 1000),
            on_progress=on_progress,
        )
    from holdfast.report import diagnosis  # the command is to start fast

    if as_json:
        text = json.dumps(diagnosis.to_json(found), indent=2, ensure_ascii=False)
        options.write(text + "\n")
    else:
        options.write_lines(diagnosis.to_lines(found))
    context.exit(0 if found.judgement is Judgement.SAFE else 1)


def _parse_version(told: str | None) -> SparkVersion | None:
    if told is None:
        return None
    found = _VERSION.fullmatch(told)
    version = SparkVersion(int(found[1]), int(found[2])) if found else None
    if version is None or not versions.PREDICTED_SINCE <= version <= versions.NEWEST:
        raise OptionInvalid(
            f"expected a version from {versions.PREDICTED}, found `--spark {told}`",
            hint="write it as in `--spark 4.1`",
        )
    return version
