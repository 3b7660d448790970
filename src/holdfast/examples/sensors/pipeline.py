"""The reference pipeline: `holdfast run holdfast.examples.sensors.pipeline`.

    landing/ or Kafka -> sensor-raw-ingest  -> tables/raw
    tables/raw        -> sensor-deserialize -> tables/readings, tables/quarantine
    tables/readings   -> sensor-merge-gold  -> tables/sensor_minutely, tables/sensor_latest,
                                               and both in PostgreSQL

Four environment variables configure it:

    HOLDFAST_SENSORS_HOME       the folder of landing/, tables/ and checkpoints/; default ./sensors
    HOLDFAST_SENSORS_KAFKA      bootstrap servers, to read the topic `sensors` instead of files
    HOLDFAST_SENSORS_POSTGRES   a libpq connection, to write the last two tables there too
    HOLDFAST_SENSORS_ENCODING   json or avro; default json
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from holdfast import Pipeline, sinks, sources
from holdfast.errors import OptionInvalid
from holdfast.examples.sensors import stages
from holdfast.examples.sensors.simulator import Encoding
from holdfast.model.definition import DeclaredSource, Output

HOME = "HOLDFAST_SENSORS_HOME"
KAFKA = "HOLDFAST_SENSORS_KAFKA"
POSTGRES = "HOLDFAST_SENSORS_POSTGRES"
ENCODING = "HOLDFAST_SENSORS_ENCODING"

TOPIC = "sensors"
RAW_INGEST = "sensor-raw-ingest"
DESERIALIZE = "sensor-deserialize"
MERGE_GOLD = "sensor-merge-gold"
JOBS = (RAW_INGEST, DESERIALIZE, MERGE_GOLD)
MINUTELY, LATEST = "sensor_minutely", "sensor_latest"

# Without a trigger interval, each job checks for new data a hundred times per second, which costs
# most of a core.
_TRIGGER = "1 second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the messages come from, how they are encoded, and where the tables go."""

    home: Path
    kafka: str | None = None
    postgres: str | None = None
    encoding: Encoding = Encoding.JSON

    @property
    def landing(self) -> Path:
        """Return the folder in which messages land as files."""
        return self.home / "landing"

    @property
    def checkpoints(self) -> Path:
        """Return the checkpoint base."""
        return self.home / "checkpoints"

    def table(self, name: str) -> Path:
        """Return the folder of a Delta table."""
        return self.home / "tables" / name


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings in the environment; raise OptionInvalid for an unknown encoding."""
    encoding = environment.get(ENCODING, Encoding.JSON.value)
    if encoding not in set(Encoding):
        raise OptionInvalid(
            f"`{ENCODING}` is `{encoding}`, but must be {' or '.join(Encoding)}",
            hint=f"unset {ENCODING}",
        )
    return Settings(
        home=Path(environment.get(HOME, "sensors")).resolve(),
        kafka=environment.get(KAFKA) or None,
        postgres=environment.get(POSTGRES) or None,
        encoding=Encoding(encoding),
    )


def make_pipeline(settings: Settings) -> Pipeline:
    """Return the pipeline with its three jobs."""
    # Two state partitions, because the demo runs on a laptop with two cores.
    pipeline = Pipeline(
        "sensors",
        checkpoints=str(settings.checkpoints),
        settings={"spark.sql.shuffle.partitions": "2"},
    )
    raw, readings = str(settings.table("raw")), str(settings.table("readings"))

    @pipeline.job(
        RAW_INGEST,
        reads=_declare_source(settings),
        writes=sinks.delta_append(raw),
        trigger=_TRIGGER,
    )
    def raw_ingest(wire: DataFrame) -> DataFrame:
        return stages.parse_kafka(wire) if settings.kafka else stages.parse_files(wire)

    @pipeline.job(
        DESERIALIZE,
        reads=sources.delta(raw),
        writes=[
            sinks.delta_append(readings, select=stages.select_readings),
            sinks.delta_append(str(settings.table("quarantine")), select=stages.select_quarantine),
        ],
        trigger=_TRIGGER,
    )
    def deserialize(raw: DataFrame) -> DataFrame:
        return stages.drop_duplicates(stages.decode_readings(raw, settings.encoding))

    @pipeline.job(
        MERGE_GOLD,
        reads=sources.delta(readings),
        writes=_declare_gold(settings),
        trigger=_TRIGGER,
        output_mode="update",
    )
    def merge_gold(readings: DataFrame) -> DataFrame:
        return stages.aggregate_minutes(readings)

    return pipeline


def _declare_gold(settings: Settings) -> list[Output]:
    minute, sensor = ["sensor", "metric", "minute"], ["sensor", "metric"]
    minutely, latest = str(settings.table(MINUTELY)), str(settings.table(LATEST))
    outputs = [
        sinks.delta_merge(minutely, keys=minute, select=stages.select_minutes),
        sinks.delta_merge(latest, keys=sensor, newest="event_time", select=stages.select_latest),
    ]
    if settings.postgres is None:
        return outputs
    return [
        *outputs,
        sinks.postgres_upsert(
            settings.postgres,
            MINUTELY,
            keys=minute,
            select=stages.select_minutes,
            name=f"postgres_{MINUTELY}",
        ),
        sinks.postgres_upsert(
            settings.postgres,
            LATEST,
            keys=sensor,
            newest="event_time",
            select=stages.select_latest,
            name=f"postgres_{LATEST}",
        ),
    ]


def _declare_source(settings: Settings) -> DeclaredSource:
    # The size of a batch is limited, so that a backlog takes several batches and a kill can hit
    # between them.
    if settings.kafka:
        return sources.kafka(settings.kafka, TOPIC, options={"maxOffsetsPerTrigger": "5000"})
    options = {"wholetext": "true", "maxFilesPerTrigger": "20"}
    return sources.files(str(settings.landing), format="text", options=options)


pipeline = make_pipeline(read_settings(os.environ))  # noqa: TID251  a module has no parameters
