"""Do the files of a merge have the rows that the merge says it has written?

A merge writes rows that it copies from the files it replaces, rows that it updates and rows that it
inserts. Their sum has to be in the footers of the files that its commit adds, and storage has to
have those files as they were written. Without a `newest` column every row of the batch is inserted
or replaces one; with it, older rows are left out.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from holdfast.errors import SinkRefused
from holdfast.model.batch import Batch
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.newest import MergeRule
from holdfast.sinks.delta.parquet import FileDiffers, WrittenFile
from holdfast.storage import Folder

CommitLines = Sequence[Mapping[str, Mapping[str, object]]]
_WRITTEN = ("numTargetRowsCopied", "numTargetRowsUpdated", "numTargetRowsInserted")


def find_loss(store: Folder, folder: str, lines: CommitLines, changed: int, rule: MergeRule) -> str:
    """Return how a commit by Spark's MERGE and its files differ from what Spark says, or nothing.

    `changed` is how many rows Spark says that it has added or replaced. `folder` is the folder in
    the table that the paths of the commit begin at. A commit that is missing, or that does not
    count, has written no rows.
    """
    try:
        files = parquet.read_files(store, _list_new_files(folder, lines), Layout())
    except FileDiffers as error:
        return error.reason
    found = sum(file.rows for file in files)
    metrics = read_metrics(lines)
    written = sum(metrics.get(name, 0) for name in _WRITTEN)
    if found != written:
        return f"the merge wrote {written} rows, its files hold {found}"
    if written < changed:
        return f"the merge changed {changed} rows, its commit has {written}"
    return find_gap(metrics.get("numSourceRows", 0), changed, rule)


def find_gap(given: int, changed: int, rule: MergeRule) -> str:
    """Return how many rows went into a merge that replaced fewer without a reason, or nothing.

    A key may be in the table more than once, so that a merge may change more rows than it has.
    """
    if rule.newest is None and changed < given:
        return f"the merge had {given} rows, and it added or replaced {changed}"
    return ""


def refuse_committed(path: str, batch: Batch, reason: str) -> SinkRefused:
    """Return the error of a merge that was found wrong after its commit."""
    return SinkRefused(
        f"The Delta table `{path}` does not hold batch {batch.id} as it was merged: {reason}",
        hint=f"compare `{path}` with the rows of the batch before you start again: the next start"
        " takes the batch as written",
    )


def read_metrics(lines: CommitLines) -> Mapping[str, int]:
    """Return what a commit says about its operation, in numbers."""
    for line in lines:
        said = line.get("commitInfo", {}).get("operationMetrics")
        if isinstance(said, dict):
            return {str(key): int(value) for key, value in said.items()}
    return {}


def _list_new_files(folder: str, lines: CommitLines) -> list[WrittenFile]:
    """Return the files that the merge wrote; one that gets deletion vectors is not among them."""
    known = {line["remove"]["path"] for line in lines if "remove" in line}
    added = [line["add"] for line in lines if "add" in line]
    return [
        WrittenFile(
            path=f"{folder}{unquote(str(one['path']))}",
            size=int(str(one["size"])),
            partition_values={},
        )
        for one in added
        if one["path"] not in known
    ]
