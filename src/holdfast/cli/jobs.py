"""`holdfast jobs`: what a pipeline declares."""

import json
from collections.abc import Iterator

import click

from holdfast import ops
from holdfast.cli import options
from holdfast.model.definition import Job, Output, Source
from holdfast.run.pipeline import Pipeline
from holdfast.storage import urls


@click.command()
@options.target
@options.as_json
def jobs(target: str, *, as_json: bool) -> None:
    """List the jobs of a pipeline: what each reads and writes, and where its checkpoint is."""
    pipeline = ops.load(target)
    if as_json:
        listed = {"pipeline": pipeline.name, "jobs": _listed(pipeline)}
        options.write(json.dumps(listed, indent=2) + "\n")
    else:
        options.write("".join(_lines(pipeline)))


def _lines(pipeline: Pipeline) -> Iterator[str]:
    for job in pipeline.jobs:
        yield f"{job.name}  ({job.declared})\n"
        yield f"  reads       {', '.join(_source(source) for source in job.reads)}\n"
        yield f"  writes      {', '.join(_output(output) for output in job.writes)}\n"
        yield f"  checkpoint  {_location(pipeline, job)}\n"


def _listed(pipeline: Pipeline) -> list[dict[str, object]]:
    return [
        {
            "name": job.name,
            "declared": str(job.declared),
            "reads": [_source(source) for source in job.reads],
            "writes": [_output(output) for output in job.writes],
            "checkpoint": _location(pipeline, job),
            "proven": job.proven,
        }
        for job in pipeline.jobs
    ]


def _location(pipeline: Pipeline, job: Job) -> str:
    if not pipeline.checkpoints:
        return "(no base declared)"
    return f"{urls.canonical(pipeline.checkpoints)}/{job.name}"


def _source(source: Source) -> str:
    place = getattr(source, "path", None) or ",".join(getattr(source, "topics", ()))
    return f"{type(source).__name__} {place}"


def _output(output: Output) -> str:
    place = getattr(output.sink, "path", output.name)
    return f"{type(output.sink).__name__} {place}"
