"""The texts of partition values, one per value, the same whoever writes the file.

Spark's Delta writer casts a partition value to text in the session's time zone, and turns instants
into ISO 8601 in UTC. Rows that the driver collects bring the texts that Spark cast; instants are
spelled from the value itself, because a local time can name two instants.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NULL = "__HIVE_DEFAULT_PARTITION__"
_TEXT = "__holdfast_partition_"


def add_texts(rows: "DataFrame", partition_by: tuple[str, ...]) -> "DataFrame":
    """Return the rows with the text of each partition value beside them."""
    if not partition_by:
        return rows
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

    texts = [
        F.col(quote(name)).cast("string").alias(f"{_TEXT}{index}")
        for index, name in enumerate(partition_by)
    ]
    return rows.select("*", *texts)


def take_texts(rows: pa.Table, partition_by: tuple[str, ...]) -> tuple[pa.Table, pa.Table]:
    """Return the collected rows alone, and the texts of their partition values by column name."""
    added = [f"{_TEXT}{index}" for index in range(len(partition_by))]
    plain = rows.drop_columns(added)
    texts = [
        _spell(plain.column(name), rows.column(text))
        for name, text in zip(partition_by, added, strict=True)
    ]
    return plain, pa.table(texts, names=list(partition_by))


def is_text(texts: pa.Table) -> bool:
    """Whether all texts are UTF-8; Spark replaces the bytes of others, which Arrow does not."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def count(texts: pa.Table) -> int:
    """How many partitions the texts name."""
    if not texts.num_columns:
        return 1
    names = [str(index) for index in range(texts.num_columns)]
    return int(texts.rename_columns(names).group_by(names).aggregate([]).num_rows)


def quote(name: str) -> str:
    """Return a column's name as Spark's SQL takes it, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


def _spell(values: pa.ChunkedArray, cast: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        # Without a zone, so that no data base of time zones is asked.
        instants = values.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        return pc.strftime(instants, "%Y-%m-%dT%H:%M:%SZ")
    texts = cast.cast(pa.string())
    return pc.if_else(pc.is_in(texts, pa.array(["", NULL])), pa.scalar(None, pa.string()), texts)
