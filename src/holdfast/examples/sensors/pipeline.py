"""The reference pipeline: `holdfast run holdfast.examples.sensors.pipeline`.

    landing/ or Kafka -> sensor-raw-ingest  -> tables/raw
    tables/raw        -> sensor-deserialize -> tables/readings, tables/quarantine
    tables/readings   -> sensor-merge-gold  -> tables/sensor_minutely, tables/sensor_latest,
                                               and both in PostgreSQL

Four variables of the environment say where:

    HOLDFAST_SENSORS_HOME       the folder with landing/, tables/ and checkpoints/; else ./sensors
    HOLDFAST_SENSORS_KAFKA      bootstrap servers, to read the topic `sensors` and no files
    HOLDFAST_SENSORS_POSTGRES   a connection for libpq, to serve the last two tables there too
    HOLDFAST_SENSORS_ENCODING   json or avro; else json
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

# Without one, each job looks for new data a hundred times a second, which costs most of a core.
_TRIGGER = "1 second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the sensors' messages come from, what they are, and where everything else goes."""

    home: Path
    kafka: str | None = None
    postgres: str | None = None
    encoding: Encoding = Encoding.JSON

    @property
    def landing(self) -> Path:
        """Where messages land as files."""
        return self.home / "landing"

    @property
    def checkpoints(self) -> Path:
        """The checkpoint base."""
        return self.home / "checkpoints"

    def table(self, name: str) -> Path:
        """The folder of a Delta table."""
        return self.home / "tables" / name


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that the environment says; raises OptionInvalid for an unknown encoding."""
    encoding = environment.get(ENCODING, Encoding.JSON.value)
    if encoding not in set(Encoding):
        raise OptionInvalid(
            f"expected `{ENCODING}` as {' or '.join(Encoding)}, found `{encoding}`",
            hint=f"unset {ENCODING}",
        )
    return Settings(
        home=Path(environment.get(HOME, "sensors")).resolve(),
        kafka=environment.get(KAFKA) or None,
        postgres=environment.get(POSTGRES) or None,
        encoding=Encoding(encoding),
    )


def sensors(settings: Settings) -> Pipeline:
    """The three jobs of one home."""
    # Two partitions of state, because the demo runs on a laptop and two cores.
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
    # A bounded batch each, so that a backlog is worked off in steps that a crash may fall between.
    if settings.kafka:
        return sources.kafka(settings.kafka, TOPIC, options={"maxOffsetsPerTrigger": "5000"})
    options = {"wholetext": "true", "maxFilesPerTrigger": "20"}
    return sources.files(str(settings.landing), format="text", options=options)


pipeline = sensors(read_settings(os.environ))  # noqa: TID251  a module has no other way to be told
