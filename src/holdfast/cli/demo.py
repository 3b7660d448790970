"""`holdfast demo`: sensors send messages, a driver is killed repeatedly, every row is counted."""

from importlib.util import find_spec
from pathlib import Path

import click

from holdfast.cli import options
from holdfast.errors import make_extras_error
from holdfast.examples.sensors.simulator import Encoding


@click.command()
@click.option("--kafka", is_flag=True, help="Use a Kafka broker instead of files.")
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the random messages; the same seed gives the same messages.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="How many times to kill the driver with SIGKILL.",
)
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    default=24_000,
    show_default=True,
    help="How many messages to send.",
)
@click.option(
    "--encoding",
    type=click.Choice([encoding.value for encoding in Encoding]),
    default=Encoding.JSON.value,
    show_default=True,
    help="Encoding of the messages.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    help="An empty folder for all files, which are kept. Default: a temporary folder.",
)
@options.as_json
def demo(  # noqa: PLR0913  one parameter per option
    *,
    kafka: bool,
    seed: int,
    kills: int,
    messages: int,
    encoding: str,
    home: Path | None,
    as_json: bool,
) -> int:
    """Kill a streaming driver repeatedly, and count every row.

    Shows that no row is lost or duplicated.
    """
    _require_packages(kafka=kafka)
    from holdfast.examples.sensors import demo as sensors  # imports packages of several extras

    return sensors.run(
        sensors.DemoOptions(
            kafka=kafka,
            seed=seed,
            kills=kills,
            messages=messages,
            encoding=Encoding(encoding),
            home=home,
            json=as_json,
        )
    )


def _require_packages(*, kafka: bool) -> None:
    """Raise one error for all packages that are missing: the demo needs several extras."""
    extras = ["spark", "postgres", *(["kafka"] if kafka else [])]
    needed = {"pyspark": "pyspark", "delta": "delta-spark", "jgo": "jgo", "psycopg": "psycopg"}
    if kafka:
        needed["confluent_kafka"] = "confluent-kafka"
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    if missing:
        raise make_extras_error(missing, extras)
