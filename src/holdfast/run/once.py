"""The guarantee of a sink without a Pipeline: one line in the `foreachBatch` of an existing job.

    <folder>/<name>             the query's checkpoint; the job is `<name>`
    <folder>/.holdfast/<name>   its lease and its identity

At the first batch the lease is taken and the sinks are prepared, as `holdfast run` does before it
starts a query; from then on each batch goes the same way.
"""

import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import DriverFenced, LeaseHeld, OptionInvalid, StorageUnavailable
from holdfast.model import json
from holdfast.model.definition import (
    Continuously,
    Declaration,
    DeclarationSite,
    DeclaredLedgerSink,
    Job,
    Output,
    OutputMode,
    find_kind,
)
from holdfast.model.ids import JobName
from holdfast.model.json import Json
from holdfast.model.version import VERSION
from holdfast.storage import Missing, urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.model.lease import Lease
    from holdfast.run.query.stream import BatchWriter
    from holdfast.run.start.admission import AdmittedJob
    from holdfast.run.start.lease import Keeper
    from holdfast.run.start.locations import Base
    from holdfast.storage import Store

_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"  # Spark runs the jobs of a query in a group named after the run


def once(
    writes: Output | Sequence[Output],
    *,
    checkpoint: str,
    storage: Mapping[str, str] | None = None,
    adopt: bool = False,
    accept: Sequence[str] = (),
    dev: bool = False,
) -> "Once":
    """Return a function for `foreachBatch` that writes each batch exactly once.

    `checkpoint` is the query's own `checkpointLocation`. `adopt` is for the first start with a
    checkpoint that already has batches: it accepts a sink that has none of them. `accept` lists
    codes of findings despite which it starts. `dev` allows a checkpoint on storage that does not
    last.
    """
    outputs = (writes,) if isinstance(writes, Output) else tuple(writes)
    for output in outputs:
        if not isinstance(output.sink, DeclaredLedgerSink):
            raise OptionInvalid(
                f"output `{output.name}` has no ledger, because its kind is"
                f" {find_kind(output.sink)}",
                hint="call your own function beside this one, or write to Delta or PostgreSQL",
            )
    base, _, name = urls.to_canonical(checkpoint).rpartition("/")
    job = Job(
        name=JobName(name),
        function=once,
        reads=(),
        writes=outputs,
        trigger=Continuously(),
        output_mode=OutputMode.APPEND,
        settings={},
        declared_at=DeclarationSite(file=checkpoint, line=0),
    )
    declaration = Declaration(
        name=name, checkpoints=base, settings={}, storage=dict(storage or {}), jobs=(job,)
    )
    return Once(declaration, adopt=adopt, accept=frozenset(accept), dev=dev)


class Once:
    """What Spark calls with every batch of an existing job.

    One object serves one query at a time. `close` gives the lease up, as does the end of the
    process; a new object takes the lease over once the query of the earlier one has ended.
    """

    def __init__(
        self, declaration: Declaration, *, adopt: bool, accept: frozenset[str], dev: bool
    ) -> None:
        self._declaration = declaration
        self._job = declaration.jobs[0]
        self._adopt = adopt
        self._accept = accept
        self._dev = dev
        self._writer: BatchWriter | None = None
        self._lost = threading.Event()
        self._release: weakref.finalize[..., Once] | None = None
        self._served: tuple[SparkSession, str, str] | None = None

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        """Write one batch to every output, or skip what is there."""
        if self._lost.is_set():
            raise DriverFenced(
                f"this driver lost the lease of job `{self._job.name}`: another driver took over",
                hint="let this process end; the job runs elsewhere",
            )
        if self._writer is None:
            self._served = None
            self._take_over(rows.sparkSession)
            self._writer = self._started(rows)
        self._require_served(_find_query(rows.sparkSession))
        self._writer(rows, batch_id)

    def close(self) -> None:
        """Give the lease up, so that the next driver need not wait."""
        self._writer = None
        if self._release is not None:
            self._release()

    def _require_served(self, serving: "tuple[SparkSession, str, str] | None") -> None:
        """Raise if a second query calls this object: its batches would pass for the first one's."""
        if serving is not None and self._served is not None and serving[1] != self._served[1]:
            raise OptionInvalid(
                f"Cannot write for query `{serving[1]}`: this `once` object writes for query"
                f" `{self._served[1]}` with the checkpoint `{self._job.declared_at.file}`",
                hint="call `holdfast.once` for each query, with the query's own"
                " `checkpointLocation`",
            )
        self._served = serving or self._served

    def _take_over(self, spark: "SparkSession") -> None:
        """Close an earlier object of this process for the same checkpoint, if its query ended.

        Spark holds on to the function of a stopped query, so that its lease would be kept for good.
        """
        location = f"{self._declaration.checkpoints}/{self._job.name}"
        earlier = _open.get(location)
        if earlier is not None and earlier is not self:
            if earlier.serves_query(besides=_find_query(spark)):
                raise LeaseHeld(
                    f"a query of this process already writes for `{location}` through a different"
                    " `once` object",
                    hint="stop that query first, or write all its outputs with one `once` object",
                )
            earlier.close()
        _open[location] = self

    def serves_query(self, *, besides: "tuple[SparkSession, str, str] | None") -> bool:
        """Whether the query that last called this object is still active."""
        if self._writer is None or self._served is None:
            return False
        session, query, run = self._served
        if besides is not None and besides[1] == query and besides[2] != run:
            return False  # Spark lets no two runs of one query be active
        try:
            # Of all sessions: that of a batch is a copy, which has no queries of its own.
            shared = session._jsparkSession.sharedState()  # noqa: SLF001  PySpark has no name for it
            active = shared.activeStreamingQueries().keySet().toArray()
            return any(str(one) == query for one in active)
        except Exception:  # its session, or Spark itself, was stopped
            return False

    def _started(self, rows: "DataFrame") -> "BatchWriter":
        from holdfast.run.query import stream
        from holdfast.run.query.batch import OffsetReader
        from holdfast.run.start import admission, lease, locations

        options = admission.RunOptions(dev=self._dev, accepted=self._accept, adopt=self._adopt)
        declared = self._declaration
        base = locations.open_base(
            declared.checkpoints, declared.name, declared.jobs, declared.storage, dev=self._dev
        )
        claim = admission.read_ledgers(declared, base, self._job, options)
        admitted = admission.take_lease(claim, declared, base, options)
        lost = self._lost

        def tell(_: "Lease") -> None:  # it must not hold this object, whose end ends the keeper
            lost.set()

        keeper = lease.Keeper(base.store, tell)
        record = _RunRecord(base.store, admitted.job.name, rows.sparkSession)
        self._release = weakref.finalize(self, _end_run, keeper, record)
        keeper.keep(admitted.lease)
        try:
            _require_same_query(base, admitted, rows.sparkSession)
            admitted = admission.require_sinks_complete(base, admitted, claim.accepted, again=False)
            admitted = admission.catch_up(admitted, keeper, options.accepted, again=False)
            stream.prepare(admitted.outputs, admitted.life, rows)
            record.begin(admitted)
        except BaseException:
            self._release()
            raise
        reader = OffsetReader(base.store, self._job.name, admitted.life)
        return stream.BatchWriter(admitted.outputs, reader)


_open: "weakref.WeakValueDictionary[str, Once]" = weakref.WeakValueDictionary()
"""The object of this process that last took the lease of a checkpoint, by its location."""


def _find_query(spark: "SparkSession") -> "tuple[SparkSession, str, str] | None":
    """The session, the query and the run that this thread works for."""
    query = spark.sparkContext.getLocalProperty(_QUERY_ID)
    run = spark.sparkContext.getLocalProperty(_RUN_ID)
    return None if query is None or run is None else (spark, query, run)


class _RunRecord:
    """The run record of a query that somebody else starts: which sinks it has, and when it ended.

    It has its own folder beside that of `holdfast.record`; both are of the same run.
    """

    def __init__(self, store: "Store", job: str, spark: "SparkSession") -> None:
        from holdfast.run.session import clock
        from holdfast.run.watch.records import RunLog

        local = spark.sparkContext.getLocalProperty
        self._query, self._run = local(_QUERY_ID), local(_RUN_ID)
        self._spark_version = spark.version
        self._log = RunLog(store, job, clock.now_ms(), self._run or "")
        self._begun = False

    def begin(self, admitted: "AdmittedJob") -> None:
        """Record the start; a query that Spark gives no id cannot be told from others."""
        from holdfast.gather.history import processes
        from holdfast.run.session import clock
        from holdfast.run.watch import listener

        if not self._query or not self._run:
            return
        self._begun = True
        this = processes.get_current()
        self._add(
            {
                "event": "started",
                "at_ms": clock.now_ms(),
                "query_id": self._query,
                "run_id": self._run,
                "name": "",
                "spark_version": self._spark_version,
                "holdfast_version": VERSION,
                "host": this.host,
                "pid": this.pid,
                "location": admitted.life.location,
                "job": admitted.job.name,
                "epoch": admitted.life.epoch,
                "generation": admitted.life.generation,
                "writes": listener.describe_outputs(admitted.job),
            }
        )

    def end(self) -> None:
        """Record the end."""
        from holdfast.run.session import clock

        if self._begun:
            self._add({"event": "terminated", "at_ms": clock.now_ms(), "error": None})

    def _add(self, event: Mapping[str, Json]) -> None:
        self._log.add(event)
        with suppress(StorageUnavailable):  # losing a record never stops a stream
            self._log.flush()


def _end_run(keeper: "Keeper", record: _RunRecord) -> None:
    keeper.close()
    record.end()


def _require_same_query(base: "Base", admitted: "AdmittedJob", spark: "SparkSession") -> None:
    """The checkpoint must be the running query's: offsets of another would pass for its own."""
    running = spark.sparkContext.getLocalProperty(_QUERY_ID)
    data = base.store.read(f"{admitted.job.name}/metadata")
    if running is None or isinstance(data, Missing):
        return
    try:
        owner = json.as_mapping(json.parse(data.decode())).get("id")
    except ValueError:
        return
    if owner != running:
        raise OptionInvalid(
            f"`{admitted.life.location}` is not the checkpoint of the running query `{running}`: it"
            f" belongs to query `{owner}`",
            hint="pass the query's own `checkpointLocation` as `checkpoint`",
        )
