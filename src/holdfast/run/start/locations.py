"""A checkpoint base -> checked locations of the jobs' checkpoints and records.

<base>/<job>/                     the checkpoint; only Spark writes here
<base>/.holdfast/<job>/job.json   the recorded location and generation of the job
<base>/.holdfast/<job>/lease/     which driver runs the job
<base>/.holdfast/<job>/runs/      the run records

This module collects facts about the machine and the storage. The rules are in
`diagnose/locations.py`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from holdfast.diagnose import locations as rules
from holdfast.errors import OptionInvalid, StorageUnavailable
from holdfast.model import json
from holdfast.model.definition import Job
from holdfast.model.ids import BatchId, Generation, JobName
from holdfast.model.surroundings import LocationFacts
from holdfast.report import redact
from holdfast.storage import Folder, Missing, Store, exclusive, mounts, open_store, urls

_MOST_SIBLINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A checked checkpoint base and its storage."""

    url: str
    store: Folder

    def location(self, job: JobName) -> str:
        """Return the checkpoint location of a job."""
        return f"{self.url}/{job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The record of a job: the location of its checkpoint, and the generation of its output.

    `adopted` is the last batch of the checkpoint when `once(adopt=True)` took it over.
    """

    location: str
    generation: Generation
    adopted: BatchId | None = None


def open_base(
    base: str | None, pipeline: str, jobs: Sequence[Job], storage: Mapping[str, str], *, dev: bool
) -> Base:
    """Return the base after every rule that needs no ledger; raise the first refusal."""
    url = resolve_base(base, pipeline)
    declared = [(job, f"{url}/{job.name}") for job in jobs]
    refusal = rules.find_first(
        rules.refuse_overlap(declared),
        rules.refuse_unsafe_base(_collect_facts(url, storage), dev=dev),
    )
    if refusal is not None:
        raise refusal
    store = open_store(url, storage)
    exclusive.require(url, storage, store)
    return Base(url=url, store=store)


def resolve_base(base: str | None, pipeline: str) -> str:
    """Return the base as a URL; raise if none is declared. Read and create nothing."""
    refusal = rules.refuse_missing_base(base, pipeline)
    if refusal is not None or base is None:
        raise refusal or AssertionError
    if redact.url_users(base) != base:
        raise OptionInvalid(
            "the checkpoint base contains a key or a password, but locations are recorded",
            hint="pass keys with `Pipeline(storage=…)` or in environment variables",
        )
    return urls.to_canonical(base)


def _collect_facts(url: str, storage: Mapping[str, str]) -> LocationFacts:
    local = urls.is_local(url)
    path = str(urls.to_local_path(url).resolve()) if local else None
    return LocationFacts(
        url=url,
        path=path,
        temporary=str(Path(tempfile.gettempdir()).resolve()),
        file_system=mounts.find_file_system(path) if path else "",
        checkpoint_above=_find_local_checkpoint_above(path)
        if path
        else _find_checkpoint_above(url, storage),
    )


def _find_local_checkpoint_above(path: str) -> str | None:
    for folder in (Path(path), *Path(path).parents):
        if all((folder / part).exists() for part in rules.CHECKPOINT_PARTS):
            return str(folder)
    return None


def _find_checkpoint_above(url: str, storage: Mapping[str, str]) -> str | None:
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    store = open_store(f"{scheme}://{bucket}", storage)
    for folder in (PurePosixPath(key), *PurePosixPath(key).parents):
        name = "" if str(folder) == "." else str(folder)
        if set(store.names(name)) >= rules.CHECKPOINT_PARTS:
            return f"{scheme}://{bucket}/{name}"
    return None


def read_identity(store: Store, job: JobName) -> Identity | None:
    """Return the record of the job; None if there is none."""
    return _parse_identity(store.read(f".holdfast/{job}/job.json"))


def _parse_identity(data: bytes | Missing) -> Identity | None:
    if isinstance(data, Missing):
        return None
    try:
        value = json.as_mapping(json.parse(data.decode()))
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


def find_last_committed(store: Store, job: JobName) -> BatchId | None:
    """Return the last batch in the checkpoint's commit log; None if the log is empty."""
    return _find_last_entry(store, f"{job}/commits")


def find_next_batch(store: Store, job: JobName) -> BatchId:
    """Return the batch that Spark runs next: the last planned one, unless it is committed."""
    planned, done = _find_last_entry(store, f"{job}/offsets"), find_last_committed(store, job)
    after = BatchId(0 if done is None else done + 1)
    return after if planned is None else max(planned, after)


def _find_last_entry(store: Store, log: str) -> BatchId | None:
    numbers = [int(name) for name in store.names(log) if name.isdecimal()]
    return BatchId(max(numbers)) if numbers else None


def record_identity(store: Store, job: JobName, identity: Identity) -> None:
    """Record the location of the job's checkpoint and the generation of its output."""
    text = json.to_canonical(
        {
            "location": identity.location,
            "generation": identity.generation,
            **({} if identity.adopted is None else {"adopted": identity.adopted}),
        }
    )
    store.write(f".holdfast/{job}/job.json", text.encode())


def find_records_beside(base: Base, job: JobName, storage: Mapping[str, str]) -> Mapping[str, str]:
    """Return the locations that folders next to the base record for the job.

    This catches a base whose name contains a date or a random id: the second start has a new base,
    and the records of the first start are in the folder next to it.
    """
    parent, _, own = base.url.rpartition("/")
    if not parent or parent.endswith(":/") or not own:
        return {}
    store = open_store(parent, storage)
    locations: dict[str, str] = {}
    for name in store.names("")[:_MOST_SIBLINGS]:
        if name in (own, ".holdfast"):
            continue
        recorded = _read_recorded_location(store, name, job)
        if recorded == f"{parent}/{name}/{job}":
            locations[f"the records in `{parent}/{name}`"] = recorded
    return locations


def _read_recorded_location(store: Store, folder: str, job: JobName) -> str | None:
    try:
        data = store.read(f"{folder}/.holdfast/{job}/job.json")
    except StorageUnavailable:
        return None  # a file, or a folder that belongs to somebody else
    recorded = _parse_identity(data)
    return recorded.location if recorded else None
