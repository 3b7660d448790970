"""`holdfast diagnose`: what will a restart do, and is it safe?"""

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
    help=f"Spark version of the restart, {versions.PREDICTED}."
    " Default: the version that wrote the checkpoint.",
)
@click.option(
    "--async-progress",
    "asynchronous",
    is_flag=True,
    help="The query restarts with asynchronous progress tracking.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    help="A Spark setting of the restart; may be repeated.",
)
@click.option(
    "--kafka",
    default="",
    metavar="SERVERS",
    help="Bootstrap servers of the Kafka cluster, to check which offsets it still has.",
)
@options.event_log
@options.storage
@options.debug
@click.pass_context
def diagnose(  # noqa: PLR0913  one parameter per option
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
    """Show what a restart will do, and whether it is safe.

    Reads a checkpoint and changes nothing.

    Exits with 0 if a restart is safe, 1 if a finding needs a decision, 2 if there is no checkpoint,
    and 3 if the checkpoint cannot be read.
    """
    with ProgressBar() as on_progress:
        diagnosis = ops.diagnose(
            location,
            storage=options.parse_pairs(storage, "--storage"),
            event_log=event_log,
            spark=_parse_version(spark),
            asynchronous=asynchronous,
            settings=options.parse_pairs(given, "--set"),
            kafka=kafka,
            now_ms=round(time.time() * 1000),
            on_progress=on_progress,
        )
    from holdfast.report import (
        diagnosis as report,
    )  # imported late, so that the command starts fast

    if as_json:
        text = json.dumps(report.to_json(diagnosis), indent=2, ensure_ascii=False)
        options.write(text + "\n")
    else:
        options.write_lines(report.to_lines(diagnosis))
    context.exit(0 if diagnosis.judgement is Judgement.SAFE else 1)


def _parse_version(text: str | None) -> SparkVersion | None:
    if text is None:
        return None
    match = _VERSION.fullmatch(text)
    version = SparkVersion(int(match[1]), int(match[2])) if match else None
    if version is None or not versions.PREDICTED_SINCE <= version <= versions.NEWEST:
        raise OptionInvalid(
            f"`--spark {text}` is not supported: use a version from {versions.PREDICTED}",
            hint="write the version as in `--spark 4.1`",
        )
    return version
