"""Declaring jobs: frozen definitions that know where they come from, and nothing that runs."""

import functools
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from holdfast import Pipeline, available_now, sinks, sources
from holdfast.errors import (
    JobDuplicated,
    JobNameInvalid,
    JobUnknown,
    OptionInvalid,
    OutputDuplicated,
)
from holdfast.model.definition import (
    AvailableNow,
    Continuously,
    DeclarationSite,
    DeltaAppend,
    DeltaMerge,
    Every,
    Files,
    ForeachBatch,
    Job,
    Kafka,
    Output,
    OutputMode,
    Trigger,
)

LANDING = sources.files("/landing", format="text")
TABLE = sinks.delta_append("/tables/raw")


def same(rows: object) -> object:
    """A job's function."""
    return rows


def declared(
    trigger: Trigger | str | None = None, output_mode: str = "append", **settings: str
) -> Job:
    pipeline = Pipeline("p")
    pipeline.job(
        "j",
        reads=LANDING,
        writes=TABLE,
        trigger=trigger,
        output_mode=output_mode,
        settings=settings,
    )(same)
    return pipeline.jobs[0]


def test_a_job_is_a_value_with_the_place_of_its_declaration() -> None:
    line = same.__code__.co_firstlineno
    assert declared(shuffle="3") == Job(
        name=declared().name,
        function=same,
        reads=(LANDING,),
        writes=(TABLE,),
        trigger=Continuously(),
        output_mode=OutputMode.APPEND,
        settings={"shuffle": "3"},
        declared_at=DeclarationSite(file=__file__, line=line),
    )
    assert str(declared().declared_at) == f"{__file__}:{line}"


def test_the_decorated_function_stays_what_it_is() -> None:
    assert Pipeline("p").job("j", reads=LANDING, writes=TABLE)(same) is same


def test_the_place_is_that_of_the_function_below_other_decorators() -> None:
    pipeline = Pipeline("p")

    @functools.wraps(same)
    def wrapped(rows: object) -> object:
        return same(rows)

    pipeline.job("j", reads=LANDING, writes=TABLE)(wrapped)
    assert pipeline.jobs[0].declared_at.line == same.__code__.co_firstlineno


def test_a_partial_function_is_a_function_too() -> None:
    pipeline = Pipeline("p")
    pipeline.job("j", reads=LANDING, writes=TABLE)(functools.partial(same))
    assert pipeline.jobs[0].declared_at == DeclarationSite(
        file=__file__, line=same.__code__.co_firstlineno
    )


@pytest.mark.parametrize("value", [declared(), LANDING, TABLE, TABLE.sink, declared().declared_at])
def test_definitions_are_frozen(
    value: Job | Files | Output | DeltaAppend | DeclarationSite,
) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "other")


def test_options_given_are_copied() -> None:
    options = {"maxFilesPerTrigger": "1"}
    source = sources.files("/l", format="text", options=options)
    options["maxFilesPerTrigger"] = "2"
    assert source.options == {"maxFilesPerTrigger": "1"}


def test_importing_a_pipeline_starts_and_imports_no_spark(tmp_path: Path) -> None:
    module = tmp_path / "jobs.py"
    module.write_text(
        "import sys\n"
        "from holdfast import Pipeline, sinks, sources\n"
        'pipeline = Pipeline("p", checkpoints="/nowhere/at/all")\n'
        '@pipeline.job("j", reads=sources.kafka("nowhere:1", "t"),'
        ' writes=sinks.delta_append("/nowhere/table"))\n'
        "def j(rows):\n"
        "    raise AssertionError\n"
        'print([name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")])\n'
    )
    run = subprocess.run([sys.executable, str(module)], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")
    assert not Path("/nowhere").exists()


def test_jobs_keep_the_order_of_their_declaration() -> None:
    pipeline = Pipeline("p")
    for name in ("c", "a", "b"):
        pipeline.job(name, reads=LANDING, writes=TABLE)(same)
    assert [job.name for job in pipeline.jobs] == ["c", "a", "b"]
    assert [job.name for job in pipeline.chosen([])] == ["c", "a", "b"]
    assert [job.name for job in pipeline.chosen(["b", "c"])] == ["c", "b"]


def test_an_unknown_job_names_the_known_ones() -> None:
    pipeline = Pipeline("p")
    with pytest.raises(JobUnknown, match=r"pipeline `p` has no job `x`. Its jobs: none"):
        pipeline.chosen(["x"])
    pipeline.job("a", reads=LANDING, writes=TABLE)(same)
    pipeline.job("b", reads=LANDING, writes=TABLE)(same)
    with pytest.raises(JobUnknown, match=r"no job `x`. Its jobs: `a`, `b`"):
        pipeline.chosen(["a", "x"])


def test_a_name_declared_in_two_places_is_refused() -> None:
    pipeline = Pipeline("p")
    pipeline.job("j", reads=LANDING, writes=TABLE)(same)
    with pytest.raises(
        JobDuplicated, match=f"pipeline `p` declares job `j` twice.*{Path(__file__).name}:"
    ):
        pipeline.job("j", reads=LANDING, writes=TABLE)(
            test_jobs_keep_the_order_of_their_declaration
        )
    assert [job.function for job in pipeline.jobs] == [same]


def test_a_declaration_that_runs_again_is_the_same_job() -> None:
    """A notebook's cell, or a module that is imported anew."""
    pipeline = Pipeline("p")
    for _ in range(2):
        pipeline.job("j", reads=LANDING, writes=TABLE)(same)
    assert [job.name for job in pipeline.jobs] == ["j"]


def test_one_place_that_declares_two_different_jobs_of_one_name_is_refused() -> None:
    """A loop that forgot to give each job its own name must not lose one."""
    pipeline = Pipeline("p")
    pipeline.job("j", reads=LANDING, writes=sinks.delta_append("/tables/a"))(same)
    with pytest.raises(JobDuplicated, match="`j`"):
        pipeline.job("j", reads=LANDING, writes=sinks.delta_append("/tables/b"))(same)


def test_a_name_that_is_no_folder_name_is_refused() -> None:
    with pytest.raises(JobNameInvalid, match="`a/b` is not a valid job name"):
        Pipeline("p").job("a/b", reads=LANDING, writes=TABLE)


def test_several_sources_and_outputs() -> None:
    pipeline = Pipeline("p")
    other = sources.kafka("broker:9092", ["a", "b"])
    late = sinks.delta_append("/tables/late")
    pipeline.job("j", reads=[LANDING, other], writes=[TABLE, late])(same)
    job = pipeline.jobs[0]
    assert job.reads == (LANDING, other)
    assert job.writes == (TABLE, late)
    assert [output.name for output in job.writes] == ["raw", "late"]


@pytest.mark.parametrize("reads", [[], ()])
def test_no_source_is_refused(reads: list[Files]) -> None:
    with pytest.raises(OptionInvalid, match="job `j`"):
        Pipeline("p").job("j", reads=reads, writes=TABLE)(same)


@pytest.mark.parametrize("writes", [[], ()])
def test_no_output_is_refused(writes: list[Output]) -> None:
    with pytest.raises(OptionInvalid, match="job `j` has no output"):
        Pipeline("p").job("j", reads=LANDING, writes=writes)


def test_two_outputs_of_one_name_are_refused() -> None:
    with pytest.raises(OutputDuplicated, match="job `j` has two outputs named `raw`"):
        Pipeline("p").job("j", reads=LANDING, writes=[TABLE, sinks.delta_append("/b/raw/")])


def test_a_file_sink_wants_a_job_of_its_own() -> None:
    with pytest.raises(OptionInvalid, match="job `j` has 2 outputs"):
        Pipeline("p").job("j", reads=LANDING, writes=[TABLE, sinks.files("/out")])


@pytest.mark.parametrize(
    ("given", "trigger"),
    [
        (None, Continuously()),
        (available_now(), AvailableNow()),
        ("10 seconds", Every(seconds=10)),
        ("1 second", Every(seconds=1)),
        (" 1.5  Minutes ", Every(seconds=90)),
        ("2 hours", Every(seconds=7200)),
        ("250 milliseconds", Every(seconds=0.25)),
        (Every(seconds=3), Every(seconds=3)),
    ],
)
def test_triggers(given: Trigger | str | None, trigger: Trigger) -> None:
    assert declared(given).trigger == trigger


@pytest.mark.parametrize(
    "text",
    ["", "10", "seconds", "ten seconds", "0 seconds", "-1 seconds", "10 days", "10 secondss",
     "10s", "nan seconds", "inf seconds", "1e999 hours", "10 seconds or so"],
)  # fmt: skip
def test_triggers_without_a_meaning(text: str) -> None:
    with pytest.raises(OptionInvalid, match="`" + re.escape(text) + "` is not"):
        declared(text)


def test_output_modes() -> None:
    assert declared(output_mode="complete").output_mode is OutputMode.COMPLETE
    with pytest.raises(OptionInvalid, match="`Append` is not an output mode"):
        declared(output_mode="Append")


def test_sources_are_values() -> None:
    assert sources.files("/l", format="json", schema="id INT", options={"a": "b"}) == Files(
        path="/l", format="json", schema="id INT", options={"a": "b"}
    )
    assert sources.kafka("b:9092", "t") == Kafka(
        servers="b:9092", topics=("t",), starting="earliest", options={}
    )
    with pytest.raises(OptionInvalid, match="`xml` is not a supported file format"):
        sources.files("/l", format="xml")
    with pytest.raises(OptionInvalid, match="the json files of `/l` have no schema"):
        sources.files("/l", format="json")
    with pytest.raises(OptionInvalid, match="names no topic, or an empty one"):
        sources.kafka("b:9092", [])
    with pytest.raises(OptionInvalid, match="names no topic, or an empty one"):
        sources.kafka("b:9092", ["a", ""])


@pytest.mark.parametrize("path", ["hdfs://h:1/a b", "hdfs:///größe", "hdfs:/t/a#b"])
def test_a_delta_table_on_hdfs_has_plain_letters(path: str) -> None:
    """delta-rs writes such a table and does not find it again."""
    for declare in (sinks.delta_append, lambda p: sinks.delta_merge(p, keys=["k"])):
        with pytest.raises(
            OptionInvalid, match="the path `" + re.escape(path) + "` of a Delta table on HDFS"
        ):
            declare(path)
    sinks.files(path)
    sinks.delta_append("hdfs://h:8020/lake/k=1/raw_v1.2-b")


@pytest.mark.parametrize("path", ["/t/100%", "/t/a%20b", "file:///t/a%20b", "s3://b/k=a%2Fb"])
def test_a_path_that_engines_read_in_two_ways(path: str) -> None:
    for declare in (
        sinks.delta_append,
        sinks.files,
        functools.partial(sinks.delta_merge, keys=["id"]),
    ):
        with pytest.raises(OptionInvalid, match="the path `" + re.escape(path) + "` contains `%`"):
            declare(path)


def test_sinks_are_values() -> None:
    assert sinks.delta_append("/t/raw", partition_by=["day"], name="n") == Output(
        name=TABLE.name.__class__("n"),
        sink=DeltaAppend(path="/t/raw", partition_by=("day",), evolve=False, properties={}),
        select=None,
    )
    merge = sinks.delta_merge("/t/m", keys=["id"], newest="at")
    assert merge.sink == DeltaMerge(
        path="/t/m", keys=("id",), newest="at", partition_by=(), properties={}
    )
    with pytest.raises(OptionInvalid, match="a merge into `/t/m` needs at least one key column"):
        sinks.delta_merge("/t/m", keys=[])
    with pytest.raises(OptionInvalid, match="`xml` is not a supported file format"):
        sinks.files("/out", format="xml")


def test_only_a_users_own_function_is_unproven() -> None:
    pipeline = Pipeline("p")
    own = sinks.foreach_batch(lambda _rows, _batch: None)
    assert isinstance(own.sink, ForeachBatch)
    pipeline.job("own", reads=LANDING, writes=[TABLE, own])(same)
    pipeline.job("delta", reads=LANDING, writes=TABLE)(same)
    assert {job.name: job.is_proven for job in pipeline.jobs} == {"own": False, "delta": True}
