"""Does a Delta table still have the versions to read?"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import DeltaOffset
from holdfast.model.surroundings import DeltaHistory


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield what is wrong with each Delta table that the query reads."""
    for source in given.evidence.sources:
        if not isinstance(source.offset, DeltaOffset):
            continue
        table = given.surroundings.delta.get(source.name)
        if table is None or isinstance(table, Unknown):
            reason = table.reason if isinstance(table, Unknown) else "its path is not known"
            yield NotAssessed(
                question=f"whether the table of source {source.name} has the versions to read",
                reason=reason,
            )
        else:
            yield from _compare_table(source, source.offset, table)


def _compare_table(
    source: SourceEvidence, offset: DeltaOffset, table: DeltaHistory
) -> Iterator[Finding]:
    if table.table_id != offset.table_id:
        yield Finding(
            code=Code.DELTA_TABLE_REPLACED,
            severity=Severity.BLOCKS,
            text=f"A restart will fail: a different table has replaced the table of source"
            f" {source.name}, at the same path.",
            clues=(
                Clue(
                    file=table.path,
                    expected=f"table id `{offset.table_id}`",
                    found=f"table id `{table.table_id}`",
                ),
            ),
            remedies=("restore the table", advice.NEW_CHECKPOINT),
        )
        return
    # An index of -1 is before the first file of the version: that version is still to be read.
    needed = offset.version if offset.index < 0 else offset.version + 1
    if not offset.in_starting_snapshot and table.first_version > needed:
        yield Finding(
            code=Code.DELTA_VERSIONS_GONE,
            severity=Severity.LOSES,
            text=f"A restart cannot read every row: the table of source {source.name} no longer has"
            f" the log of version {needed}.",
            clues=(
                Clue(
                    file=f"{table.path}/_delta_log",
                    expected=f"version {needed}",
                    found=f"versions {table.first_version} to {table.last_version}",
                ),
            ),
            remedies=("restore the log of the table", advice.NEW_CHECKPOINT),
        )
    elif offset.version > table.last_version + 1:
        yield Finding(
            code=Code.DELTA_TABLE_REPLACED,
            severity=Severity.BLOCKS,
            text=f"A restart will fail: the table of source {source.name} ends before the version"
            " that the query read last.",
            clues=(
                Clue(
                    file=table.path,
                    expected=f"version {offset.version}",
                    found=f"versions up to {table.last_version}",
                ),
            ),
            remedies=("restore the table", advice.NEW_CHECKPOINT),
        )
