"""Build a Spark session with the jars and settings that holdfast chooses; the user's own win."""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.errors import JavaMissing, OptionInvalid
from holdfast.run.session import jars, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST_JAVA = 17
_DEFAULT_MASTER = "local[*]"
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def open_session(  # noqa: PLR0913  one parameter per choice
    name: str,
    *,
    master: str | None,
    given: Mapping[str, str],
    on_s3: bool,
    debug: bool,
    reaches_s3: bool = False,
    jvm_errors: BinaryIO | None = None,
) -> "SparkSession":
    """Return a new session, or the one that `spark-submit` prepared.

    `on_s3`: the checkpoints are on S3; `reaches_s3`: tables or files are. `jvm_errors` is a file
    for the JVM's own stderr, such as the warning at every start.
    """
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: TID251  spark-submit sets it
    own = {**(_read_submitted_settings() if submitted else _read_defaults_file()), **given}
    if not submitted:
        _require_java()
    chosen_master = master or own.get("spark.master") or _DEFAULT_MASTER
    if not submitted:
        # The workers must be able to import what this process imports.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # noqa: TID251
    ours = _choose_settings(
        chosen_master, own, on_s3=on_s3, reaches_s3=reaches_s3, submitted=submitted
    )
    # The last two share only `spark.jars`, where ours contains both.
    chosen = {"spark.app.name": name, **own, **ours}
    options = "spark.driver.extraJavaOptions"
    if not submitted:
        chosen["spark.master"] = chosen_master
        chosen.setdefault(options, _format_log_options("warn" if debug else "fatal"))
        if not debug:
            hush()
    if jvm_errors is not None and not submitted:
        _launch_jvm(chosen, jvm_errors)
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _launch_jvm(chosen: Mapping[str, str], errors: BinaryIO) -> None:
    """Start a JVM and a context for the session to use."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAll(list(chosen.items()))
    gateway = launch_gateway(conf, {"stderr": errors})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def _choose_settings(
    master: str, own: Mapping[str, str], *, on_s3: bool, reaches_s3: bool, submitted: bool
) -> dict[str, str]:
    """Return the settings that holdfast adds: never one that the user made."""
    cloud = ["cloud-" + find_spark_line()] if on_s3 or reaches_s3 else []
    sets = ["spark-" + find_spark_line(), *cloud]
    added = {s.key: s.value for s in settings.choose(cores=_count_cores(master), on_s3=on_s3)}
    if not submitted and "delta-spark" not in own.get("spark.jars.packages", ""):
        paths = [str(path) for one in sets for path in jars.fetch(one)]
        earlier = [own["spark.jars"]] if own.get("spark.jars") else []
        added["spark.jars"] = ",".join(earlier + paths)
    if master.startswith("local"):
        added["spark.driver.host"] = "127.0.0.1"
        added["spark.driver.bindAddress"] = "127.0.0.1"
    return {key: value for key, value in added.items() if key == "spark.jars" or key not in own}


def _format_log_options(level: str) -> str:
    """Return the Java options that set the level of Spark's log."""
    return f'-Dlog4j2.configurationFile="{_LOG_SETTINGS}" -Dholdfast.log={level}'


def hush() -> None:
    """Keep pyspark from printing the stack trace of an error that it also raises."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def find_spark_line() -> str:
    """Return the version of the installed Spark as the jar sets name it, like `4.1`."""
    import pyspark

    return ".".join(pyspark.__version__.split(".")[:2])


def adopt(spark: "SparkSession", *, on_s3: bool) -> None:
    """Add our settings to an existing session, except those that it has set itself."""
    explicit = _read_session_settings(spark)
    master = str(spark.sparkContext.master)
    for setting in settings.choose(cores=_count_cores(master), on_s3=on_s3):
        if setting.key in explicit or not spark.conf.isModifiable(setting.key):
            continue
        spark.conf.set(setting.key, setting.value)


def _read_session_settings(spark: "SparkSession") -> Mapping[str, str]:
    return dict(spark.sparkContext.getConf().getAll()) | dict(spark.conf.getAll)


def _read_submitted_settings() -> dict[str, str]:
    from pyspark import SparkConf

    return dict(SparkConf().getAll())


def _read_defaults_file() -> dict[str, str]:
    """Read the user's `spark-defaults.conf`, which Spark itself would rank below our settings."""
    folder = os.environ.get("SPARK_CONF_DIR") or (  # noqa: TID251  Spark's own place for it
        os.environ.get("SPARK_HOME", "") + "/conf"  # noqa: TID251
    )
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines)
    return {p[0]: p[1] for p in pairs if len(p) == 2 and not p[0].startswith("#")}  # noqa: PLR2004


def _count_cores(master: str) -> int | None:
    match = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if match is None:
        return None
    count = match.group(1)
    if count is None:
        return 1
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")  # noqa: TID251  how Spark itself finds Java
    java = f"{home}/bin/java" if home else shutil.which("java")
    hint = "install a JDK or JRE 17 or 21, or set JAVA_HOME to one"
    if java is None or not Path(java).is_file():
        raise JavaMissing(f"Java is missing: Spark needs Java {_OLDEST_JAVA} or later", hint=hint)
    release = _find_java_release(Path(java).resolve())
    if release is not None and release < _OLDEST_JAVA:
        raise JavaMissing(
            f"Java {release} is too old: Spark needs Java {_OLDEST_JAVA} or later", hint=hint
        )


def _find_java_release(java: Path) -> int | None:
    """Return the major version, from the JDK's `release` file or, slower, from Java itself."""
    try:
        text = (java.parent.parent / "release").read_text()
    except OSError:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
        text = done.stderr
    found = re.search(r'[vV](?:ERSION=|ersion )"(\d+)', text)
    return int(found.group(1)) if found else None


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse `KEY=VALUE` texts into settings."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise OptionInvalid(
                f"`{pair}` is not a Spark setting",
                hint="write it like `--set spark.sql.shuffle.partitions=8`",
            )
        found[key] = value
    return found
