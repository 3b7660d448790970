"""Where a job's checkpoint and records lie: facts from the machine and the storage for the rules.

<base>/<job>/                     the checkpoint; only Spark writes there
<base>/.holdfast/<job>/job.json   which location and generation the job was recorded with
<base>/.holdfast/<job>/lease/     who runs it
<base>/.holdfast/<job>/runs/      what every run did
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from holdfast.diagnose import locations as rules
from holdfast.errors import OptionInvalid, StorageUnavailable
from holdfast.model import json
from holdfast.model.definition import DatabaseSink, Job, Sink
from holdfast.model.ids import BatchId, Generation, JobName
from holdfast.report import redact
from holdfast.storage import Folder, Missing, Store, exclusive, mounts, open_store, urls

_MOST_SIBLINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A checked checkpoint base and its storage."""

    url: str
    store: Folder

    def location(self, job: JobName) -> str:
        """The job's checkpoint location."""
        return f"{self.url}/{job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is recorded of a job: where its checkpoint is and which life its output has.

    `adopted` is the last batch that was in the checkpoint when `once(adopt=True)` took it over.
    """

    location: str
    generation: Generation
    adopted: BatchId | None = None


def checked(
    base: str | None, pipeline: str, jobs: Sequence[Job], storage: Mapping[str, str], *, dev: bool
) -> Base:
    """The base, after every rule that needs no ledger; raises the first refusal."""
    url = declared_base(base, pipeline)
    declared = [(job, f"{url}/{job.name}") for job in jobs]
    found = rules.first(rules.of_jobs(declared), rules.of_facts(_facts(url, storage), dev=dev))
    if found is not None:
        raise found
    store = open_store(url, storage)
    exclusive.require(url, storage, store)
    return Base(url=url, store=store)


def declared_base(base: str | None, pipeline: str) -> str:
    """The base as a URL; raises where none is declared. Looks at nothing, and makes nothing."""
    refusal = rules.of_base(base, pipeline)
    if refusal is not None or base is None:
        raise refusal or AssertionError
    if redact.without_user(base) != base:
        raise OptionInvalid(
            "expected a checkpoint base without a key or a password, found one in it",
            hint="give keys by `Pipeline(storage=…)` or by the environment: locations are recorded",
        )
    return urls.canonical(base)


def _facts(url: str, storage: Mapping[str, str]) -> rules.BaseFacts:
    local = urls.is_local(url)
    path = str(urls.local_path(url).resolve()) if local else None
    return rules.BaseFacts(
        url=url,
        path=path,
        temporary=str(Path(tempfile.gettempdir()).resolve()),
        file_system=mounts.file_system(path) if path else "",
        checkpoint_above=_local_checkpoint_above(path) if path else _above(url, storage),
    )


def _local_checkpoint_above(path: str) -> str | None:
    for folder in (Path(path), *Path(path).parents):
        if all((folder / part).exists() for part in rules.CHECKPOINT_PARTS):
            return str(folder)
    return None


def _above(url: str, storage: Mapping[str, str]) -> str | None:
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    store = open_store(f"{scheme}://{bucket}", storage)
    for folder in (PurePosixPath(key), *PurePosixPath(key).parents):
        name = "" if str(folder) == "." else str(folder)
        if set(store.names(name)) >= rules.CHECKPOINT_PARTS:
            return f"{scheme}://{bucket}/{name}"
    return None


def identity(store: Store, job: JobName) -> Identity | None:
    """What is recorded of the job, or None."""
    return _identity(store.read(f".holdfast/{job}/job.json"))


def _identity(data: bytes | Missing) -> Identity | None:
    if isinstance(data, Missing):
        return None
    try:
        value = json.mapping(json.parse(data.decode()))
    except (ValueError, RecursionError):
        return None
    location, generation = value.get("location"), value.get("generation")
    if not isinstance(location, str) or type(generation) is not int:
        return None
    adopted = value.get("adopted")
    return Identity(
        location=location,
        generation=Generation(generation),
        adopted=BatchId(adopted) if type(adopted) is int else None,
    )


def last_committed(store: Store, job: JobName) -> BatchId | None:
    """The last batch in the checkpoint's commit log."""
    return _last_entry(store, f"{job}/commits")


def next_batch(store: Store, job: JobName) -> BatchId:
    """The batch that Spark runs next: the last one in the offset log, unless it is committed."""
    planned, done = _last_entry(store, f"{job}/offsets"), last_committed(store, job)
    after = BatchId(0 if done is None else done + 1)
    return after if planned is None else max(planned, after)


def _last_entry(store: Store, log: str) -> BatchId | None:
    numbers = [int(name) for name in store.names(log) if name.isdecimal()]
    return BatchId(max(numbers)) if numbers else None


def record_identity(store: Store, job: JobName, identity: Identity) -> None:
    """Record where the job's checkpoint is and which generation it writes."""
    text = json.canonical(
        {
            "location": identity.location,
            "generation": identity.generation,
            **({} if identity.adopted is None else {"adopted": identity.adopted}),
        }
    )
    store.write(f".holdfast/{job}/job.json", text.encode())


def recorded_beside(base: Base, job: JobName, storage: Mapping[str, str]) -> Mapping[str, str]:
    """Locations that the job is recorded with in folders beside the base.

    This is what catches a base that is made from a date or a random id: the second start has a
    base of its own, and the first one's records lie next to it.
    """
    parent, _, own = base.url.rpartition("/")
    if not parent or parent.endswith(":/") or not own:
        return {}
    store = open_store(parent, storage)
    found: dict[str, str] = {}
    for name in store.names("")[:_MOST_SIBLINGS]:
        if name in (own, ".holdfast"):
            continue
        recorded = _recorded_in(store, name, job)
        if recorded == f"{parent}/{name}/{job}":
            found[f"the records in `{parent}/{name}`"] = recorded
    return found


def _recorded_in(store: Store, folder: str, job: JobName) -> str | None:
    try:
        data = store.read(f"{folder}/.holdfast/{job}/job.json")
    except StorageUnavailable:
        return None  # a file, or a folder of somebody else's
    recorded = _identity(data)
    return recorded.location if recorded else None


def path_of(sink: Sink) -> str:
    """The path or the table of a sink, or nothing where it has none."""
    if isinstance(sink, DatabaseSink):
        return f"{sink.schema}.{sink.table}" if sink.schema else sink.table
    return str(getattr(sink, "path", ""))
