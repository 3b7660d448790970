"""Can Spark read the schemas and the metadata of operators, and check the query against them?"""

from collections.abc import Iterator

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, Unknown, UnreadableFile
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import operator_descriptions, state_load

_MOST_LISTED = 5
_V4_0 = SparkVersion(4, 0)


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield unreadable schemas and metadata, and operators that Spark cannot check."""
    yield from _find_unreadable_schemas(given.evidence)
    yield from _find_undescribed(given)
    yield from _find_unchecked(given.evidence)
    yield from _find_elsewhere(given.evidence)


def _find_unreadable_schemas(evidence: Evidence) -> Iterator[Finding]:
    for file in evidence.unreadable:
        is_schema = file.path.startswith("state/") and file.path.endswith("_metadata/schema")
        if is_schema and not file.is_unread:
            yield _make_schema_finding(file, _advise_move(file.path))


def _advise_move(path: str) -> str:
    return (
        f"move `{path}` out of the checkpoint: Spark then writes the schema again, and skips the"
        " check once"
    )


def _make_schema_finding(file: UnreadableFile, remedy: str) -> Finding:
    return Finding(
        code=Code.STATE_SCHEMA_UNREADABLE,
        severity=Severity.BLOCKS,
        text=f"The next batch will fail: `{file.path}` cannot be read, and Spark reads it when it"
        " plans a batch.",
        clues=(Clue(file=file.path, expected="a state schema", found=file.reason),),
        remedies=(remedy,),
    )


def _find_undescribed(given: RuleInput) -> Iterator[Finding]:
    """Yield the unreadable descriptions of operators whose schemas only their metadata names."""
    evidence, batch = given.evidence, given.restart.batch
    if isinstance(batch, Unknown) or batch == 0 or given.restart.starting.spark < _V4_0:
        return
    for operator, file in operator_descriptions.find_unreadable_metadata(evidence):
        yield Finding(
            code=Code.OPERATOR_METADATA_UNREADABLE,
            severity=Severity.BLOCKS,
            text=f"The next batch will fail: Spark finds the state schemas of operator"
            f" {operator.operator} through the operator's metadata, which cannot be read.",
            clues=(Clue(file=file.path, expected="the operator's metadata", found=file.reason),),
            remedies=(f"restore `state/{operator.operator}/_metadata` from a copy",),
        )
    for operator, file in operator_descriptions.find_unreadable_schemas(evidence):
        remedy = (
            f"restore `{file.path}` from a copy of the checkpoint"
            if operator_descriptions.is_processor(operator)
            else _advise_move(file.path)
        )
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
        if operator.operator in blocked or not state_load.may_have_state(operator):
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
            text="A changed query starts and may compute wrong results, because Spark cannot check"
            f" whether operator {operator.operator} is still the one that wrote the state.",
            clues=(Clue(file=path, expected="the operator's name", found=reason),),
            remedies=("start the query that wrote the state, unchanged",),
        )


def _find_elsewhere(evidence: Evidence) -> Iterator[Finding]:
    here = operator_descriptions.normalize_location(evidence.location.value)
    for operator in evidence.operators:
        foreign = operator_descriptions.list_foreign_schemas(evidence, operator)
        if foreign:
            yield Finding(
                code=Code.STATE_SCHEMA_ELSEWHERE,
                severity=Severity.UNDEFINED,
                text="A restart needs the old place of the checkpoint, which was moved or copied:"
                f" operator {operator.operator} still reads its state schema there.",
                clues=tuple(
                    Clue(file=f"state/{operator.operator}/_metadata", expected=here, found=path)
                    for path in foreign[:_MOST_LISTED]
                ),
                remedies=(f"move the checkpoint back to where its schema lies: `{foreign[0]}`",),
            )
