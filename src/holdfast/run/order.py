"""The order of a start, and the reasons for it."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.model.definition import Declaration, DeltaTable, Job, find_path
from holdfast.run.query import failure
from holdfast.run.start import admission, locations
from holdfast.run.start.admission import AdmittedJob, RunOptions
from holdfast.run.start.locations import Base
from holdfast.run.watch.driver import Running, Say, say_nothing
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(
    pipeline: Declaration,
    jobs: Sequence[Job],
    options: RunOptions,
    open_session: Callable[[Base], "SparkSession"],
    *,
    say: Say = say_nothing,
    wake: threading.Event | None = None,
) -> Running:
    """Start jobs in five steps. Each step relies on the ones before it.

    With `once`, each job runs to its end before the next one starts. Setting `wake` ends the start.
    """
    # 1. Check the locations. A wrong declaration must not touch anything.
    base = locations.open_base(
        pipeline.checkpoints, pipeline.name, pipeline.jobs, pipeline.storage, dev=options.dev
    )
    admitted: list[AdmittedJob] = []
    try:
        for job in _order_jobs(jobs):
            # 2. Read the ledgers. They know the epochs of earlier drivers, which the lease has to
            #    exceed, and whether the sink has every batch that the checkpoint counts as done.
            claim = admission.read_ledgers(pipeline, base, job, options)
            # 3. Take the lease, and judge the checkpoint. Not earlier: until then another driver
            #    may still move the checkpoint.
            admitted.append(admission.take_lease(claim, pipeline, base, options))
    except BaseException:  # whatever it is, the next start must not wait for a lease
        admission.keep_leases(base, admitted).close()
        raise
    for entry in admitted:
        say(f"{entry.job.name}: checkpoint {entry.life.location}, epoch {entry.life.epoch}")
    running = Running(
        base, pipeline.storage, _open_session(base, admitted, open_session), options, say
    )
    try:
        for runner in [running.add(entry) for entry in admitted]:
            if wake is not None and wake.is_set():
                break
            with failure.translate_errors(runner.job):
                # 4. Prepare the sinks: create what is missing and commit the new epoch. From here
                #    on no older driver can write. Just before, compare the query with the
                #    checkpoint, and read the ledgers again: this step would hide a lost table.
                prepared = running.prepare(runner)
                # 5. Start the query. Last, so that no batch runs before the fence stands.
                running.launch(runner, prepared)
            if options.once:
                running.wait_for(runner, wake)
    except BaseException:
        running.stop(grace=0)
        raise
    return running


def _open_session(
    base: Base,
    admitted: Sequence[AdmittedJob],
    open_session: Callable[[Base], "SparkSession"],
) -> "SparkSession":
    """Open the session and keep the leases meanwhile: Spark may take longer than a lease lasts."""
    keeper = admission.keep_leases(base, admitted)
    try:
        spark = open_session(base)
    except BaseException:
        keeper.close()
        raise
    keeper.end()
    return spark


def _order_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs with writers of a table before its readers, otherwise as declared."""
    ordered: list[Job] = []
    waiting = list(jobs)
    while waiting:
        tables = {path for job in waiting for path in _list_written_tables(job)}
        ready = [
            job
            for job in waiting
            if not (_list_read_tables(job) & (tables - _list_written_tables(job)))
        ]
        ordered += ready or waiting
        waiting = [job for job in waiting if job not in ordered]
    return ordered


def _list_read_tables(job: Job) -> set[str]:
    return {
        urls.to_canonical(source.path) for source in job.reads if isinstance(source, DeltaTable)
    }


def _list_written_tables(job: Job) -> set[str]:
    paths = (find_path(output.sink) for output in job.writes)
    return {urls.to_canonical(path) for path in paths if path}
