"""A finished checkpoint -> its state as Spark's own data sources read it (Spark 4.0 and later).

state metadata: operator, store, partitions, batches
rows:           per operator and store, the schema of key and value, and the number of rows
"""

import json
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tools.golden.scenario import parse_version

Json = dict[str, object]
_ROWS = 5


def read_state(spark: SparkSession, checkpoint: Path) -> Json:
    """Return the state of a checkpoint as Spark reads it, with the errors that Spark reports."""
    if parse_version(pyspark.__version__) < (4, 0):
        return {}
    metadata = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    stores = [row.asDict(recursive=True) for row in metadata]
    return {
        "stores": stores,
        "rows": [
            _rows(spark, checkpoint, options) for store in stores for options in _choices(store)
        ],
    }


def _choices(store: Json) -> list[dict[str, str]]:
    """Return the options that select a store's rows: by state variable, or by store name."""
    operator = {"operatorId": str(store["operatorId"])}
    properties = json.loads(str(store.get("operatorProperties") or "{}") or "{}")
    variables = properties.get("stateVariables")
    if variables:
        found = json.loads(variables) if isinstance(variables, str) else variables
        return [{**operator, **_variable(variable["stateName"])} for variable in found]
    return [{**operator, "storeName": str(store["stateStoreName"])}]


def _variable(name: str) -> dict[str, str]:
    # Timers are in column families that only a special option reads.
    return {"readRegisteredTimers": "true"} if name.startswith("$") else {"stateVarName": name}


def _rows(spark: SparkSession, checkpoint: Path, options: dict[str, str]) -> Json:
    try:
        frame = spark.read.format("statestore").options(**options).load(str(checkpoint))
        rows = [json.loads(row) for row in frame.toJSON().collect()]
    except PySparkException as error:
        return {**options, "error": str(error).splitlines()[0][:300]}
    except Py4JJavaError as error:  # a failed task of the RDD that `toJSON` makes
        return {**options, "error": str(error.java_exception.getMessage()).splitlines()[0][:300]}
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return {
        **options,
        "schema": json.loads(frame.schema.json()),
        "count": len(rows),
        "first_rows": rows[:_ROWS],
    }
