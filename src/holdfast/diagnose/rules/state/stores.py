"""Stage 3: can the state be put together, and is it where its metadata says?"""

from collections.abc import Iterator

from holdfast.model import advice, state
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Absent, Known, Unknown, UnreadableFile
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.restart import StateLoad
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import operator_descriptions, state_load

_MOST_TOLD = 5
_V4_0 = SparkVersion(4, 0)


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """State to load, schemas, and operators that Spark cannot check."""
    evidence = seen.evidence
    yield from _find_missing(seen)
    yield from _find_passed_over(seen)
    yield from _find_refused(seen)
    yield from _find_unreadable_schemas(evidence)
    yield from _find_undescribed(seen)
    yield from _find_unchecked(evidence)
    yield from _find_elsewhere(evidence)
    if any(_may_have_state(evidence, one.operator) for one in evidence.operators):
        yield NotAssessed(
            question="whether the content of the state files is whole",
            reason=f"only their names and sizes are looked at{_describe_opened(evidence)}",
        )
    elif (
        isinstance(evidence.stateful_operators, Absent)
        and not isinstance(seen.restart.batch, Unknown)
        and not evidence.stateless
    ):
        yield NotAssessed(
            question="whether the query has state",
            reason="there is none; a stateful query whose folder `state` is gone looks the same",
        )


def _describe_opened(evidence: Evidence) -> str:
    """How many of RocksDB's snapshots were held against the files that they name."""
    stores = [one for operator in evidence.operators for one in operator.stores]
    having = sum(one.opened or bool(one.snapshots) for one in stores)
    if FileKind.STATE_ZIP not in evidence.files or not having:
        return ""
    held = sum(one.opened for one in stores)
    return f", and in {held:,} of {having:,} stores what the snapshot names"


def _find_missing(seen: RuleInput) -> Iterator[Finding]:
    evidence = seen.evidence
    for load in seen.restart.state:
        if _is_misplaced(evidence, load):
            continue  # the files are there, at the wrong level, and have a finding of their own
        if load.missing and load.ended:
            yield _make_outlived_finding(evidence, load)
        elif load.missing and load.never_written and not evidence.misplaced:
            yield _make_added_finding(load)
        elif load.missing and not _may_have_state(evidence, load.operator):
            yield _make_gone_finding(evidence, load)
        elif load.missing:
            yield Finding(
                code=Code.STATE_MISSING,
                severity=Severity.BLOCKS,
                text=f"Operator {load.operator} loads version {load.version} of its state, which"
                f" in {_format_count(len(load.missing))} cannot be put together from the files"
                f" that are"
                " there.",
                clues=tuple(_make_clue(evidence, one, load) for one in load.missing[:_MOST_TOLD]),
                remedies=(
                    "restore the folder `state` from a copy of the checkpoint",
                    *_advise_rerun(seen, BatchId(load.version - 1)),
                ),
            )


def _is_misplaced(evidence: Evidence, load: StateLoad) -> bool:
    """Whether everything that is missing of an operator lies at a wrong level."""
    found = {one.belongs for one in evidence.misplaced}
    lost = {"/".join(store.split("/")[:3]) for store in load.missing}
    return bool(lost) and found.issuperset(lost)


def _make_added_finding(load: StateLoad) -> Finding:
    """A schema and no state: what a start leaves that fails at a new operator."""
    own = f"state/{load.operator}"
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.BLOCKS,
        text=f"Batch {load.version} fails: operator {load.operator} has a schema and no state. It"
        " was added to a query that had run before, or its state files were deleted.",
        clues=(
            Clue(file=own, expected=f"state up to version {load.version}", found="only a schema"),
        ),
        remedies=(
            (
                f"if the operator was added, move the folder `{own}` out of the checkpoint and"
                " start the query without the operator"
            ),
            "if its files were deleted, restore the folder `state` from a copy of the checkpoint",
        ),
    )


def _format_count(stores: int) -> str:
    return "1 store" if stores == 1 else f"{stores:,} stores"


def _may_have_state(evidence: Evidence, operator: int) -> bool:
    """Whether a partition of an operator is there, or one that cannot be seen."""
    own = [one for one in evidence.operators if one.operator == operator]
    return any(one.partitions or one.unlisted for one in own)


def _make_gone_finding(evidence: Evidence, load: StateLoad) -> Finding:
    """Its folder was deleted: something else tells of the operator."""
    names = evidence.stateful_operators
    told = f", as in `{names.read_from[0]}`" if isinstance(names, Known) else ""
    expected, found = f"the state of an operator{told}", "no such folder"
    for one in evidence.operators:
        if one.operator == load.operator and isinstance(one.name, Unknown):
            expected, found = "the state of an operator", one.name.reason
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.BLOCKS,
        text=f"Nothing is left of the state of operator {load.operator}, with which the last batch"
        f" ran: a start loads version {load.version} of it.",
        clues=(Clue(file=f"state/{load.operator}", expected=expected, found=found),),
        remedies=(
            "restore the folder `state` from a copy of the checkpoint",
            f"else {advice.NEW_CHECKPOINT}",
        ),
    )


def _make_outlived_finding(evidence: Evidence, load: StateLoad) -> Finding:
    """State that ends in all stores at once, far behind the commits."""
    committed = evidence.batches.last_committed
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.UNDEFINED,
        text=f"The state of operator {load.operator} ends at version {load.ended} in every store,"
        f" and batches up to {committed} are committed: the query that wrote it fails, for it loads"
        f" version {load.version}; a query without this operator starts.",
        clues=tuple(_make_clue(evidence, one, load) for one in load.missing[:_MOST_TOLD]),
        remedies=(
            "if the operator was taken out of the query, start it: this state is not loaded",
            f"else restore the folder `state` as it was after batch {committed}",
        ),
    )


def _make_clue(evidence: Evidence, store: str, load: StateLoad) -> Clue:
    """What a store lacks; the first file of it that cannot be read says it best."""
    for file in state_load.list_blocking(evidence, load, store):
        return Clue(file=file.path, expected="a file that can be loaded", found=file.reason)
    if _lacks_names(evidence, load, store):
        expected = f"`commits/{load.version - 1}`, which names the files"
        return Clue(file=store, expected=expected, found="no such commit")
    return Clue(file=store, expected=f"files up to version {load.version}", found="not all")


def _lacks_names(evidence: Evidence, load: StateLoad, store: str) -> bool:
    """Whether the files of a store have unique ids that no commit names."""
    named = evidence.batches.last_committed == load.version - 1
    return not named and any(
        one.unique_ids
        for operator in evidence.operators
        for one in operator.stores
        if state.format_store_folder(operator.operator, one.partition, one.store) == store
    )


def _find_passed_over(seen: RuleInput) -> Iterator[Finding]:
    """Files of the state that cannot be read, where the version to load is there all the same."""
    stopped = {store for load in seen.restart.state for store in load.missing}
    unread = [
        file
        for operator in seen.evidence.operators
        for one in operator.stores
        if (store := state.format_store_folder(operator.operator, one.partition, one.store))
        not in stopped
        for file in state_load.list_damaged(seen.evidence, store)
    ]
    if not unread or isinstance(seen.restart.batch, Unknown):
        return
    count = "a file" if len(unread) == 1 else f"{len(unread):,} files"
    yield Finding(
        code=Code.FILE_UNREADABLE,
        severity=Severity.NOTE,
        text=f"In stores whose state can be put together all the same, {count} cannot be read.",
        clues=tuple(
            Clue(file=one.path, expected="a file that can be loaded", found=one.reason)
            for one in unread[:_MOST_TOLD]
        ),
        remedies=(),
    )


def _find_refused(seen: RuleInput) -> Iterator[Finding]:
    files = state_load.list_stores_of_4_0(seen.evidence)
    if files and seen.restart.starting.spark != _V4_0:
        yield Finding(
            code=Code.STATE_VERSION_UNKNOWN,
            severity=Severity.BLOCKS,
            text="Spark 4.0 has written RocksDB's metadata in version 2, which no other reads.",
            clues=tuple(
                Clue(file=one, expected="metadata of version 1", found="version 2")
                for one in files[:_MOST_TOLD]
            ),
            remedies=("start it with Spark 4.0",),
        )


def _advise_rerun(seen: RuleInput, batch: BatchId) -> Iterator[str]:
    """To run the last batch again, where it is committed and what it loads is there.

    Below a batch that is planned, a commit that is removed makes nothing run again.
    """
    loaded = state_load.list_loads(seen.evidence, batch, seen.restart.starting.spark)
    if not seen.restart.rerun and not any(one.missing for one in loaded):
        yield (
            f"or, if it cannot be had, remove `commits/{batch}` and its hidden `.crc`: batch"
            f" {batch} then runs again over the same range and writes the version, and a sink"
            " without a ledger gets it twice"
        )


def _find_unreadable_schemas(evidence: Evidence) -> Iterator[Finding]:
    for file in evidence.unreadable:
        schema = file.path.startswith("state/") and file.path.endswith("_metadata/schema")
        if schema and not file.is_unread:
            anew = f"put `{file.path}` away: Spark then writes it anew, and checks nothing once"
            yield _make_schema_finding(file, anew)


def _make_schema_finding(file: UnreadableFile, remedy: str) -> Finding:
    return Finding(
        code=Code.STATE_SCHEMA_UNREADABLE,
        severity=Severity.BLOCKS,
        text=f"`{file.path}` is read when a batch is planned, and cannot be.",
        clues=(Clue(file=file.path, expected="a state schema", found=file.reason),),
        remedies=(remedy,),
    )


def _find_undescribed(seen: RuleInput) -> Iterator[Finding]:
    """What describes operators whose schemas only their metadata names."""
    evidence, batch = seen.evidence, seen.restart.batch
    if isinstance(batch, Unknown) or batch == 0 or seen.restart.starting.spark < _V4_0:
        return
    for operator, file in operator_descriptions.find_unreadable_metadata(evidence):
        yield Finding(
            code=Code.OPERATOR_METADATA_UNREADABLE,
            severity=Severity.BLOCKS,
            text=f"Operator {operator.operator} finds the schemas of its state through its"
            " metadata, which cannot be read when a batch is planned.",
            clues=(Clue(file=file.path, expected="the operator's metadata", found=file.reason),),
            remedies=(f"restore `state/{operator.operator}/_metadata` from a copy",),
        )
    for operator, file in operator_descriptions.find_unreadable_schemas(evidence):
        remedy = f"restore `{file.path}` from a copy of the checkpoint"
        if not operator_descriptions.is_processor(operator):
            remedy = f"put `{file.path}` away: Spark then writes one anew, and checks nothing once"
        yield _make_schema_finding(file, remedy)
    for _, path in operator_descriptions.find_lost_schemas(evidence):
        lost = UnreadableFile(path=path, reason="no such file")
        yield _make_schema_finding(lost, f"restore `{path}` from a copy of the checkpoint")


def _find_unchecked(evidence: Evidence) -> Iterator[Finding]:
    blocked = {
        operator.operator
        for operator, _ in operator_descriptions.find_unreadable_metadata(evidence)
    }
    for operator in evidence.operators:
        if operator.operator in blocked or not _may_have_state(evidence, operator.operator):
            continue
        if isinstance(operator.name, Known) and not operator.name.inferred:
            continue
        if isinstance(operator.name, UnreadableFile) and operator.name.is_unread:
            continue
        path = f"state/{operator.operator}/_metadata/metadata"
        reason = "no such file" if isinstance(operator.name, Known) else operator.name.reason
        yield Finding(
            code=Code.OPERATORS_UNCHECKED,
            severity=Severity.NOTE,
            text=f"Spark cannot check whether operator {operator.operator} is still the one that"
            " wrote the state: a changed query starts and may be wrong.",
            clues=(Clue(file=path, expected="the operator's name", found=reason),),
            remedies=("start it with the query that wrote the state, unchanged",),
        )


def _find_elsewhere(evidence: Evidence) -> Iterator[Finding]:
    here = operator_descriptions.normalize_location(evidence.location.value)
    for operator in evidence.operators:
        other = operator_descriptions.list_foreign_schemas(evidence, operator)
        if other:
            yield Finding(
                code=Code.STATE_SCHEMA_ELSEWHERE,
                severity=Severity.UNDEFINED,
                text=f"Operator {operator.operator} reads its state schema from another place: the"
                " checkpoint was moved or copied, and needs the old place.",
                clues=tuple(
                    Clue(file=f"state/{operator.operator}/_metadata", expected=here, found=one)
                    for one in other[:_MOST_TOLD]
                ),
                remedies=(f"move the checkpoint back to where its schema lies: `{other[0]}`",),
            )
