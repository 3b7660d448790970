"""`holdfast jobs`: what a pipeline declares."""

import json
from collections.abc import Iterator

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.model.definition import (
    DeclaredLedgerSink,
    DeclaredSource,
    DeltaAppend,
    DeltaMerge,
    DeltaTable,
    Files,
    FileSink,
    ForeachBatch,
    JdbcAppend,
    JdbcUpsert,
    Job,
    Kafka,
    Output,
    PostgresAppend,
    PostgresUpsert,
    find_target,
)
from holdfast.model.json import Json
from holdfast.report import redact
from holdfast.run.pipeline import Pipeline
from holdfast.storage import urls


@click.command()
@options.target
@options.as_json
def jobs(target: str, *, as_json: bool) -> None:
    """List the jobs of a pipeline.

    Shows what each job reads and writes, and where its checkpoint is.
    """
    pipeline = ops.load(target)
    if as_json:
        document = redact.value({"pipeline": pipeline.name, "jobs": _to_json(pipeline)})
        options.write(json.dumps(document, indent=2) + "\n")
    else:
        options.write("".join(f"{redact.for_display(line)}\n" for line in _format_lines(pipeline)))


def _format_lines(pipeline: Pipeline) -> Iterator[str]:
    for job in pipeline.jobs:
        yield f"{job.name}  ({job.declared_at})"
        yield f"  reads       {'; '.join(_describe_source(source) for source in job.reads)}"
        yield f"  writes      {'; '.join(_describe_output(output) for output in job.writes)}"
        yield f"  checkpoint  {_find_location(pipeline, job)}"


def _to_json(pipeline: Pipeline) -> list[Json]:
    return [
        {
            "name": job.name,
            "declared": str(job.declared_at),
            "reads": [_describe_source(source) for source in job.reads],
            "writes": [_describe_output(output) for output in job.writes],
            "checkpoint": _find_location(pipeline, job),
            "proven": job.is_proven,
        }
        for job in pipeline.jobs
    ]


def _find_location(pipeline: Pipeline, job: Job) -> str:
    if not pipeline.checkpoints:
        return "(no base declared)"
    return f"{urls.to_canonical(pipeline.checkpoints)}/{job.name}"


def _describe_source(source: DeclaredSource) -> str:
    match source:
        case Files():
            return f"{source.format} files in {source.path}"
        case Kafka():
            return f"Kafka {', '.join(source.topics)} at {source.servers}"
        case DeltaTable():
            return f"Delta table {source.path}"


def _describe_output(output: Output) -> str:
    match output.sink:
        case DeltaAppend() | DeltaMerge() as sink:
            return f"Delta table {sink.path}{_describe_keys(sink)}"
        case PostgresAppend() | PostgresUpsert() as sink:
            return f"PostgreSQL table {find_target(sink)}{_describe_keys(sink)}"
        case JdbcAppend() | JdbcUpsert() as sink:
            return f"JDBC table {find_target(sink)}{_describe_keys(sink)}"
        case FileSink() as sink:
            return f"{sink.format} files in {sink.path}"
        case ForeachBatch() as sink:
            return f"function {getattr(sink.function, '__name__', output.name)}, unproven"


def _describe_keys(sink: DeclaredLedgerSink) -> str:
    keys = getattr(sink, "keys", ())
    return f" by {', '.join(keys)}" if keys else ""
