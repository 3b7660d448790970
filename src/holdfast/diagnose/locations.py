"""Stage 3: may these jobs use these checkpoint locations? Jobs and facts -> what is refused.

Every rule gives its own error. The order is from the declaration outwards: what can be said of
the text alone comes before what needs the storage.
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

if TYPE_CHECKING:  # what looks at a checkpoint declares no jobs, and is to start fast
    from holdfast.model.definition import Job

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME_LENGTH = 128
_EPHEMERAL_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/private/tmp", "/var/folders")  # noqa: S108
_EPHEMERAL_SYSTEMS = frozenset({"tmpfs", "ramfs", "overlay", "aufs", "rootfs"})
CHECKPOINT_PARTS = frozenset({"offsets", "commits", "metadata"})


def refuse_name(name: str) -> JobNameInvalid | None:
    """A name must be a folder name on every storage, and stay the same in every spelling."""
    if _NAME.fullmatch(name) and len(name) <= _NAME_LENGTH and not name.endswith("."):
        return None
    return JobNameInvalid(
        f"expected a job name of letters, digits, `.`, `_` and `-` that starts with a letter or"
        f" digit, at most {_NAME_LENGTH} long, found `{name[:200]}`",
        hint='rename it, as in `@pipeline.job("sensor-raw-ingest", …)`',
    )


def refuse_missing_base(base: str | None, pipeline: str) -> BaseMissing | None:
    """There must be a base."""
    if base and base.strip():
        return None
    return BaseMissing(
        f"expected a checkpoint base for pipeline `{pipeline}`, found none",
        hint=f'give one: `Pipeline("{pipeline}", checkpoints="s3://bucket/checkpoints")`',
    )


def refuse_overlap(
    locations: "Sequence[tuple[Job, str]]",
) -> LocationShared | LocationNested | None:
    """No location is another job's, or inside another job's."""
    for index, (job, location) in enumerate(locations):
        for other, taken in locations[:index]:
            if location.lower() == taken.lower():
                return LocationShared(
                    f"expected one checkpoint location a job, found `{other.name}`"
                    f" ({other.declared}) and `{job.name}` ({job.declared}) on `{location}`",
                    hint="give one of the jobs another name",
                )
            if _is_inside(location.lower(), taken.lower()) or _is_inside(
                taken.lower(), location.lower()
            ):
                return LocationNested(
                    f"expected checkpoint locations beside each other, found `{location}` and"
                    f" `{taken}` inside one another",
                    hint="give one of the jobs another name or base",
                )
    return None


def refuse_unsafe_base(facts: LocationFacts, *, dev: bool) -> LocationNested | BaseEphemeral | None:
    """The base must not lie in a checkpoint, nor on storage that does not last."""
    if facts.checkpoint_above:
        return LocationNested(
            f"expected a base outside of every checkpoint, found `{facts.url}` inside the"
            f" checkpoint `{facts.checkpoint_above}`",
            hint="choose a base beside it",
        )
    reason = explain_ephemeral(facts)
    if reason is None or dev:
        return None
    return BaseEphemeral(
        f"expected a base on storage that lasts, found `{facts.url}` {reason}",
        hint="choose another base, or say `--dev` if losing it does not matter",
    )


def refuse_move(job: JobName, location: str, recorded: Mapping[str, str]) -> LocationMoved | None:
    """The location must be the one that was recorded, wherever it was recorded."""
    for where, earlier in recorded.items():
        if earlier != location:
            return LocationMoved(
                f"expected job `{job}` at its recorded checkpoint location `{earlier}`"
                f" (by {where}), found it declared at `{location}`",
                hint="declare the recorded location; if it was moved there on purpose, start once"
                " with `--accept LOCATION_MOVED`",
            )
    return None


def refuse_sink_behind(
    job: JobName, output: OutputName, last: LastWritten, done: BatchId | None
) -> SinkBehind | None:
    """A sink must hold every batch that the checkpoint counts as done."""
    match last:
        case NothingWritten() if done is not None:
            found = f"a sink without any batch of the job, and batches up to {done} committed"
        case WrittenBatch(taken_back=True):
            found = f"a table that was restored or replaced after batch {last.batch} was written"
            if done is None or last.batch > done:
                # Accepting the gap writes it: the table may have lost its rows.
                return SinkBehind(
                    f"expected output `{output}` of job `{job}` to hold what its checkpoint counts"
                    f" as done, found {found}. Spark runs batch {last.batch} again",
                    hint=advice.pending(last.batch),
                )
        case WrittenBatch(batch=batch) if done is not None and batch < done:
            found = f"batch {batch} as the sink's last, and batches up to {done} committed"
        case _:
            return None
    return SinkBehind(
        f"expected output `{output}` of job `{job}` to hold what its checkpoint counts as done,"
        f" found {found}: a restart would not write the batches in between",
        hint=advice.BEHIND,
    )


def find_first(*refusals: HoldfastError | None) -> HoldfastError | None:
    """The first thing that is refused."""
    return next((refusal for refusal in refusals if refusal is not None), None)


def explain_ephemeral(facts: LocationFacts) -> str | None:
    """Return why the storage of a location does not last; None where it does."""
    if facts.path is None:
        return None
    for folder in (facts.temporary, *_EPHEMERAL_FOLDERS):
        if facts.path == folder or _is_inside(facts.path, folder):
            return f"in the temporary directory `{folder}`"
    if facts.file_system in _EPHEMERAL_SYSTEMS:
        return f"on a file system of type `{facts.file_system}`, which ends with its container"
    return None


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
