"""The whole exception tree: every error that holdfast raises.

A damaged checkpoint is evidence, not an exception. An exception means that holdfast cannot go on.

    HoldfastError
    ├── DeclarationRefused            the declaration is wrong; nothing was started
    │   ├── JobNameInvalid            JOB_NAME_INVALID
    │   ├── JobDuplicated             JOB_DUPLICATED
    │   ├── JobUnknown                JOB_UNKNOWN
    │   ├── OutputDuplicated          OUTPUT_DUPLICATED
    │   ├── OptionInvalid             OPTION_INVALID
    │   ├── PipelineNotFound          PIPELINE_NOT_FOUND
    │   ├── ModuleFailed              MODULE_FAILED
    │   └── FunctionResultInvalid     FUNCTION_RESULT_INVALID
    ├── LocationRefused               the checkpoint location is not safe to use
    │   ├── BaseMissing               BASE_MISSING
    │   ├── BaseEphemeral             BASE_EPHEMERAL
    │   ├── LocationShared            LOCATION_SHARED
    │   ├── LocationNested            LOCATION_NESTED
    │   ├── LocationMoved             LOCATION_MOVED
    │   └── CreateNotExclusive        CREATE_NOT_EXCLUSIVE
    ├── InspectionRefused             the location or the options name nothing that can be shown
    │   ├── LocationMissing           LOCATION_MISSING
    │   ├── LocationEmpty             LOCATION_EMPTY
    │   ├── LocationForbidden         LOCATION_FORBIDDEN
    │   ├── NotACheckpoint            NOT_A_CHECKPOINT
    │   ├── BatchMissing              BATCH_MISSING
    │   ├── EventLogUnreadable        EVENT_LOG_UNREADABLE
    │   └── StateUnreadable           STATE_UNREADABLE
    ├── StorageUnavailable            STORAGE_UNAVAILABLE
    ├── SourceUnavailable             SOURCE_UNAVAILABLE
    ├── StartUnsafe                   START_UNSAFE
    ├── LeaseHeld                     LEASE_HELD
    ├── DriverFenced                  DRIVER_FENCED
    ├── BatchChanged                  BATCH_CHANGED
    ├── BatchNotContinuous            BATCH_NOT_CONTINUOUS
    ├── BatchUnverifiable             BATCH_UNVERIFIABLE
    ├── SinkBehind                    SINK_BEHIND
    ├── OffsetsUnreadable             OFFSETS_UNREADABLE
    ├── OffsetsReplaced               OFFSETS_REPLACED
    ├── SinkContended                 SINK_CONTENDED
    ├── RowsMiscounted                ROWS_MISCOUNTED
    ├── SinkUnavailable               SINK_UNAVAILABLE
    ├── SinkRefused                   SINK_REFUSED
    ├── SchemaMismatch                SCHEMA_MISMATCH
    ├── QueryFailed                   QUERY_FAILED
    ├── PackageMissing                a package is missing that an extra of holdfast installs
    │   ├── SparkMissing              SPARK_MISSING
    │   └── ExtraMissing              EXTRA_MISSING
    ├── JavaMissing                   JAVA_MISSING
    ├── JarsUnavailable               JARS_UNAVAILABLE
    ├── ServerUnavailable             SERVER_UNAVAILABLE
    └── ReportUnwritten               REPORT_UNWRITTEN
"""

from collections.abc import Sequence
from typing import ClassVar


class HoldfastError(Exception):
    """An error with a stable code, one sentence that says what happened, and a hint."""

    code: ClassVar[str] = "HOLDFAST"
    exit_code: ClassVar[int] = 1
    curable_by_restart: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        """Return what pickle needs to rebuild the error: errors cross Spark's workers."""
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[HoldfastError], message: str, hint: str) -> HoldfastError:
    return kind(message, hint=hint)


class DeclarationRefused(HoldfastError):
    """The declaration is wrong; nothing was started."""

    code = "DECLARATION_REFUSED"
    exit_code = 2


class JobNameInvalid(DeclarationRefused):
    """The job name cannot be a folder name on every storage."""

    code = "JOB_NAME_INVALID"


class JobDuplicated(DeclarationRefused):
    """Two jobs of one pipeline have the same name."""

    code = "JOB_DUPLICATED"


class JobUnknown(DeclarationRefused):
    """The pipeline declares no job of this name."""

    code = "JOB_UNKNOWN"


class OutputDuplicated(DeclarationRefused):
    """Two outputs of one job have the same name."""

    code = "OUTPUT_DUPLICATED"


class OptionInvalid(DeclarationRefused):
    """An option of a source, a sink, a trigger or a command is invalid."""

    code = "OPTION_INVALID"


class PipelineNotFound(DeclarationRefused):
    """The module declares no pipeline, none of this name, or several."""

    code = "PIPELINE_NOT_FOUND"


class ModuleFailed(DeclarationRefused):
    """The module that declares the pipeline could not be imported."""

    code = "MODULE_FAILED"


class FunctionResultInvalid(DeclarationRefused):
    """The job's function did not return a streaming DataFrame."""

    code = "FUNCTION_RESULT_INVALID"


class LocationRefused(HoldfastError):
    """The checkpoint location is not safe to use."""

    code = "LOCATION_REFUSED"
    exit_code = 2


class BaseMissing(LocationRefused):
    """The pipeline declares no checkpoint base."""

    code = "BASE_MISSING"


class BaseEphemeral(LocationRefused):
    """The checkpoint base is on storage that disappears with the machine or the container."""

    code = "BASE_EPHEMERAL"


class LocationShared(LocationRefused):
    """Two jobs would use the same checkpoint location."""

    code = "LOCATION_SHARED"


class LocationNested(LocationRefused):
    """The checkpoint location is inside another checkpoint."""

    code = "LOCATION_NESTED"


class LocationMoved(LocationRefused):
    """The job last ran with a different checkpoint location."""

    code = "LOCATION_MOVED"


class CreateNotExclusive(LocationRefused):
    """The storage lets two writers create the same file, so a lease on it is not safe."""

    code = "CREATE_NOT_EXCLUSIVE"


class InspectionRefused(HoldfastError):
    """The location or the options name nothing that can be shown."""

    code = "INSPECTION_REFUSED"
    exit_code = 2


class LocationMissing(InspectionRefused):
    """The location does not exist."""

    code = "LOCATION_MISSING"


class LocationEmpty(InspectionRefused):
    """The folder at the location is empty."""

    code = "LOCATION_EMPTY"


class LocationForbidden(InspectionRefused):
    """This user may not read the location."""

    code = "LOCATION_FORBIDDEN"
    exit_code = 3


class NotACheckpoint(InspectionRefused):
    """The location is neither a checkpoint nor a folder of checkpoints."""

    code = "NOT_A_CHECKPOINT"


class BatchMissing(InspectionRefused):
    """The checkpoint does not contain the batch, or no longer does."""

    code = "BATCH_MISSING"


class EventLogUnreadable(InspectionRefused):
    """The event log does not exist, or contains no event that can be read."""

    code = "EVENT_LOG_UNREADABLE"


class StateUnreadable(InspectionRefused):
    """The checkpoint has no state for this operator, batch or store."""

    code = "STATE_UNREADABLE"


class StorageUnavailable(HoldfastError):
    """The storage of a checkpoint, a record or a table did not answer."""

    code = "STORAGE_UNAVAILABLE"
    exit_code = 3
    curable_by_restart = True


class SourceUnavailable(HoldfastError):
    """A source does not exist or does not answer."""

    code = "SOURCE_UNAVAILABLE"
    exit_code = 3
    curable_by_restart = True


class StartUnsafe(HoldfastError):
    """The checkpoint shows that a start would fail, lose data or duplicate data."""

    code = "START_UNSAFE"
    exit_code = 1


class LeaseHeld(HoldfastError):
    """Another live driver runs this job."""

    code = "LEASE_HELD"
    exit_code = 4


class DriverFenced(HoldfastError):
    """A newer driver has taken over this job; this driver must not write any more."""

    code = "DRIVER_FENCED"
    exit_code = 4


class BatchChanged(HoldfastError):
    """The sink already has this batch id, written from a different range of offsets."""

    code = "BATCH_CHANGED"
    exit_code = 5


class BatchNotContinuous(HoldfastError):
    """The batch does not begin where the previous batch ended, according to the sink."""

    code = "BATCH_NOT_CONTINUOUS"
    exit_code = 5


class BatchUnverifiable(HoldfastError):
    """The sink already has this batch id, and its range of offsets cannot be determined."""

    code = "BATCH_UNVERIFIABLE"
    exit_code = 5


class SinkBehind(HoldfastError):
    """The sink lacks batches that the checkpoint has committed."""

    code = "SINK_BEHIND"
    exit_code = 5


class OffsetsUnreadable(HoldfastError):
    """The offset log entry of the running batch cannot be read."""

    code = "OFFSETS_UNREADABLE"
    exit_code = 3
    # Spark may have ignored a failed upload of the entry; a restart then plans the batch again.
    curable_by_restart = True


class OffsetsReplaced(HoldfastError):
    """The offset log contradicts the running query: another driver wrote to it."""

    code = "OFFSETS_REPLACED"
    exit_code = 3
    curable_by_restart = True


class SinkContended(HoldfastError):
    """Every attempt to commit lost against another writer."""

    code = "SINK_CONTENDED"
    exit_code = 3
    curable_by_restart = True


class RowsMiscounted(HoldfastError):
    """The files of a batch have fewer or more rows than its plan produced; nothing is committed."""

    code = "ROWS_MISCOUNTED"
    exit_code = 3
    curable_by_restart = True


class SinkUnavailable(HoldfastError):
    """The server of a sink does not answer, or disconnected in the middle of a batch."""

    code = "SINK_UNAVAILABLE"
    exit_code = 3
    curable_by_restart = True


class SinkRefused(HoldfastError):
    """The sink cannot be written as declared."""

    code = "SINK_REFUSED"
    exit_code = 3


class SchemaMismatch(HoldfastError):
    """The rows do not fit the table."""

    code = "SCHEMA_MISMATCH"
    exit_code = 3


class QueryFailed(HoldfastError):
    """The streaming query failed, and was not or could not be restarted."""

    code = "QUERY_FAILED"
    exit_code = 1


class PackageMissing(HoldfastError):
    """A package is missing that an extra of holdfast installs."""

    code = "PACKAGE_MISSING"
    exit_code = 2


class SparkMissing(PackageMissing):
    """The command needs Spark, but pyspark is not installed."""

    code = "SPARK_MISSING"
    exit_code = 3


class ExtraMissing(PackageMissing):
    """The command needs a package that an extra of holdfast installs."""

    code = "EXTRA_MISSING"


class JavaMissing(HoldfastError):
    """Java is missing, or too old for Spark."""

    code = "JAVA_MISSING"
    exit_code = 3


class JarsUnavailable(HoldfastError):
    """The jars that Spark needs could not be fetched, or differ from the locked ones."""

    code = "JARS_UNAVAILABLE"
    exit_code = 3


class ServerUnavailable(HoldfastError):
    """A server that holdfast starts for the demo did not start."""

    code = "SERVER_UNAVAILABLE"
    exit_code = 3


class ReportUnwritten(HoldfastError):
    """The output of a command could not be written to stdout, for example to a full disk."""

    code = "REPORT_UNWRITTEN"
    exit_code = 3


# The modules of each extra in pyproject.toml, with the name of the package that contains them.
EXTRAS: dict[str, dict[str, str]] = {
    "spark": {
        "pyspark": "pyspark",
        "py4j": "pyspark",
        "delta": "delta-spark",
        "jgo": "jgo",
        "pandas": "pandas",
    },
    "postgres": {"psycopg": "psycopg", "psycopg_binary": "psycopg", "numpy": "numpy"},
    "kafka": {"confluent_kafka": "confluent-kafka"},
    "hdfs": {"hdfs_native": "hdfs-native"},
}


def name_extra(error: ImportError) -> PackageMissing | None:
    """Return an error that names the extra of a missing package; None if no extra installs it."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return make_extras_error([modules[module]], [extra])
    return None


def make_extras_error(packages: Sequence[str], extras: Sequence[str]) -> PackageMissing:
    """Return the error for packages that are not installed, with the extras that install them."""
    names = ", ".join(f"`{package}`" for package in packages)
    kind = SparkMissing if packages[0] == "pyspark" else ExtraMissing
    verb = "is" if len(packages) == 1 else "are"
    return kind(
        f"{names} {verb} not installed",
        hint=f"pip install 'holdfast[{','.join(extras)}]'",
    )


def list_kinds(kind: type[HoldfastError] = HoldfastError) -> list[type[HoldfastError]]:
    """Return every error class that is raised: the leaves of the tree."""
    children = kind.__subclasses__()
    return [leaf for child in children for leaf in list_kinds(child)] if children else [kind]
