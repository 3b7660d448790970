"""What Spark's own state data sources read in a finished checkpoint (Spark 4.0 and later).

state metadata: operator, store, partitions, batches
rows:           per operator and store, the schema of key and value, and how many rows there are
"""

import json
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tools.golden.scenario import version_of

Json = dict[str, object]
_ROWS = 5


def read_state(spark: SparkSession, checkpoint: Path) -> Json:
    """The state of a checkpoint in Spark's words, also of what Spark cannot read."""
    if version_of(pyspark.__version__) < (4, 0):
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
    """The options that select a store's rows: a variable for transformWithState, else a name."""
    operator = {"operatorId": str(store["operatorId"])}
    properties = json.loads(str(store.get("operatorProperties") or "{}") or "{}")
    variables = properties.get("stateVariables")
    if variables:
        found = json.loads(variables) if isinstance(variables, str) else variables
        return [{**operator, **_variable(variable["stateName"])} for variable in found]
    return [{**operator, "storeName": str(store["stateStoreName"])}]


def _variable(name: str) -> dict[str, str]:
    # Timers are in column families that only an option of their own may read.
    return {"readRegisteredTimers": "true"} if name.startswith("$") else {"stateVarName": name}


def _rows(spark: SparkSession, checkpoint: Path, options: dict[str, str]) -> Json:
    try:
        frame = spark.read.format("statestore").options(**options).load(str(checkpoint))
        rows = [json.loads(row) for row in frame.toJSON().collect()]
    except PySparkException as error:
        return {**options, "error": str(error).splitlines()[0][:300]}
    except Py4JJavaError as error:  # what fails in a task, of an RDD as `toJSON` makes it
        return {**options, "error": str(error.java_exception.getMessage()).splitlines()[0][:300]}
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return {
        **options,
        "schema": json.loads(frame.schema.json()),
        "count": len(rows),
        "first_rows": rows[:_ROWS],
    }
