"""May these jobs use these checkpoint locations? Jobs and facts about locations -> errors.

Every rule has its own error. Rules that need only the declaration come before rules that need the
storage.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import (
    BaseEphemeral,
    BaseMissing,
    HoldfastError,
    JobNameInvalid,
    LocationMoved,
    LocationNested,
    LocationShared,
    SinkBehind,
)
from holdfast.model import advice
from holdfast.model.batch import LastWritten, NothingWritten, WrittenBatch
from holdfast.model.ids import BatchId, JobName, OutputName
from holdfast.model.surroundings import LocationFacts

if TYPE_CHECKING:  # commands that only read a checkpoint declare no jobs, and must start fast
    from holdfast.model.definition import Job

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME_LENGTH = 128
_EPHEMERAL_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/private/tmp", "/var/folders")  # noqa: S108
_EPHEMERAL_SYSTEMS = frozenset({"tmpfs", "ramfs", "overlay", "aufs", "rootfs"})
CHECKPOINT_PARTS = frozenset({"offsets", "commits", "metadata"})


def refuse_name(name: str) -> JobNameInvalid | None:
    """Refuse a name that is not a folder name on every storage, or has several spellings."""
    if _NAME.fullmatch(name) and len(name) <= _NAME_LENGTH and not name.endswith("."):
        return None
    return JobNameInvalid(
        f"`{name[:200]}` is not a valid job name: use letters, digits, `.`, `_` and `-`, start with"
        f" a letter or digit, do not end with `.`, and use at most {_NAME_LENGTH} characters",
        hint='rename the job, as in `@pipeline.job("sensor-raw-ingest", …)`',
    )


def refuse_missing_base(base: str | None, pipeline: str) -> BaseMissing | None:
    """Refuse a pipeline without a checkpoint base."""
    if base and base.strip():
        return None
    return BaseMissing(
        f"pipeline `{pipeline}` has no checkpoint base",
        hint=f'pass one: `Pipeline("{pipeline}", checkpoints="s3://bucket/checkpoints")`',
    )


def refuse_overlap(
    locations: "Sequence[tuple[Job, str]]",
) -> LocationShared | LocationNested | None:
    """Refuse two jobs with the same location, or with one location inside the other."""
    for index, (job, location) in enumerate(locations):
        for other, taken in locations[:index]:
            if location.lower() == taken.lower():
                return LocationShared(
                    f"jobs `{other.name}` ({other.declared_at}) and `{job.name}`"
                    f" ({job.declared_at}) have the same checkpoint location `{location}`",
                    hint="give one of the jobs a different name",
                )
            if _is_inside(location.lower(), taken.lower()) or _is_inside(
                taken.lower(), location.lower()
            ):
                return LocationNested(
                    f"the checkpoint locations `{location}` and `{taken}` are nested: one is inside"
                    " the other",
                    hint="give one of the jobs a different name or base",
                )
    return None


def refuse_unsafe_base(facts: LocationFacts, *, dev: bool) -> LocationNested | BaseEphemeral | None:
    """Refuse a base inside a checkpoint, or on storage that does not last."""
    if facts.checkpoint_above:
        return LocationNested(
            f"the checkpoint base `{facts.url}` is inside the checkpoint"
            f" `{facts.checkpoint_above}`",
            hint="choose a base outside of that checkpoint",
        )
    reason = explain_ephemeral(facts)
    if reason is None or dev:
        return None
    return BaseEphemeral(
        f"the checkpoint base `{facts.url}` may disappear: it is {reason}",
        hint="choose a different base, or pass `--dev` if you can afford to lose the checkpoints",
    )


def refuse_move(job: JobName, location: str, recorded: Mapping[str, str]) -> LocationMoved | None:
    """Refuse a location that differs from any of the recorded ones."""
    for where, recorded_location in recorded.items():
        if recorded_location != location:
            return LocationMoved(
                f"the declared checkpoint location of job `{job}` is `{location}`, but according to"
                f" {where} it is `{recorded_location}`",
                hint="declare the recorded location; if you moved the checkpoint on purpose, start"
                " once with `--accept LOCATION_MOVED`",
            )
    return None


def refuse_sink_behind(
    job: JobName, output: OutputName, last: LastWritten, done: BatchId | None
) -> SinkBehind | None:
    """Refuse a sink that lacks a batch which the checkpoint counts as done."""
    match last:
        case NothingWritten() if done is not None:
            reason = f"has no batch of this job, but batches up to {done} are committed"
        case WrittenBatch(taken_back=True):
            reason = f"was restored or replaced after batch {last.batch} was written"
            if done is None or last.batch > done:
                # Accepting the gap writes the batch: the table may have lost its rows.
                return SinkBehind(
                    f"output `{output}` of job `{job}` {reason}, and Spark runs batch {last.batch}"
                    " again",
                    hint=advice.pending(last.batch),
                )
        case WrittenBatch(batch=batch) if done is not None and batch < done:
            reason = f"ends at batch {batch}, but batches up to {done} are committed"
        case _:
            return None
    return SinkBehind(
        f"output `{output}` of job `{job}` {reason}: a restart would not write the missing batches",
        hint=advice.BEHIND,
    )


def find_first(*refusals: HoldfastError | None) -> HoldfastError | None:
    """Return the first refusal, if there is one."""
    return next((refusal for refusal in refusals if refusal is not None), None)


def explain_ephemeral(facts: LocationFacts) -> str | None:
    """Return why the storage of a location does not last, or None if it does."""
    if facts.path is None:
        return None
    for folder in (facts.temporary, *_EPHEMERAL_FOLDERS):
        if facts.path == folder or _is_inside(facts.path, folder):
            return f"in the temporary directory `{folder}`"
    if facts.file_system in _EPHEMERAL_SYSTEMS:
        return (
            f"on a file system of type `{facts.file_system}`, which is deleted with its container"
        )
    return None


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
