"""A process of its own: streams over one folder, each with its checkpoint on S3, one after another.

python -m tests.spark.s3_stream LANDING BASE SETTINGS NAME…    tells what each did, as JSON
"""

import json
import sys
from contextlib import suppress

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from holdfast.run.session import build


def ran(spark: SparkSession, landing: str, location: str) -> dict[str, object]:
    """Run to the end of the input, one file a batch: the rows of each batch, and the error."""
    batches: list[tuple[int, list[int]]] = []

    def keep(rows: DataFrame, batch: int) -> None:
        batches.append((batch, sorted(row.n for row in rows.collect())))

    rows = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(landing)
    stream = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = stream.option("checkpointLocation", location).start()
    with suppress(StreamingQueryException):
        query.awaitTermination()
    raised = query._jsq.exception()  # noqa: SLF001  its class is not to be had otherwise
    cause = raised.get().cause() if raised.isDefined() else None
    error = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}" if cause else ""
    return {"batches": batches, "error": error}


def main() -> None:
    """Run every stream that the command names."""
    landing, base, settings, *names = sys.argv[1:]
    given = {"spark.ui.enabled": "false", **json.loads(settings)}
    spark = build.open_session("s3", master="local[1]", given=given, on_s3=True, debug=False)
    base = base.replace("s3://", "s3a://")
    told = {name: ran(spark, landing, f"{base}/{name}") for name in names}
    spark.stop()
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
