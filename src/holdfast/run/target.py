"""`MODULE[:PIPELINE]` -> the pipeline that the module declares."""

import importlib
import importlib.util
import os
import shlex
import sys
import traceback
from pathlib import Path
from types import ModuleType

from holdfast.errors import HoldfastError, ModuleFailed, PipelineNotFound, name_extra
from holdfast.run.pipeline import Pipeline


def load(target: str) -> Pipeline:
    """Return the pipeline that `MODULE[:PIPELINE]` names; MODULE is a dotted name or a file."""
    name, _, attribute = target.partition(":")
    module = _import_module(name)
    pipelines = {key: value for key, value in vars(module).items() if isinstance(value, Pipeline)}
    listed = ", ".join(f"`{key}`" for key in pipelines) or "none"
    if attribute:
        if attribute in pipelines:
            return pipelines[attribute]
        example = _format_run_command(name, next(iter(pipelines), "NAME"))
        raise PipelineNotFound(
            f"`{name}` has no Pipeline named `{attribute}`. Its pipelines: {listed}",
            hint=f"name a Pipeline of the module: `{example}`",
        )
    distinct = {id(pipeline): pipeline for pipeline in pipelines.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    raise PipelineNotFound(
        f"cannot choose a Pipeline in `{name}`. Its pipelines: {listed}",
        hint=f"name the Pipeline to run: `{_format_run_command(name, 'PIPELINE')}`",
    )


def _format_run_command(module: str, pipeline: str) -> str:
    return shlex.join(["holdfast", "run", f"{module}:{pipeline}"])


def _make_importable(folder: Path) -> None:
    """Let this process and Spark's workers on this machine import from a folder."""
    sys.path.insert(0, str(folder))
    old_path = os.environ.get("PYTHONPATH")  # noqa: TID251  the workers inherit it
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([old_path] if old_path else [])])  # noqa: TID251


def _import_module(name: str) -> ModuleType:
    _make_importable(Path(name).resolve().parent if name.endswith(".py") else Path.cwd())
    try:
        if name.endswith(".py"):
            return _import_file(Path(name))
        return importlib.import_module(name)
    except HoldfastError:
        raise
    except ModuleNotFoundError as error:
        missing = name_extra(error)
        if missing is not None:
            raise missing from error
        raise ModuleFailed(
            f"cannot import `{name}`: {error}",
            hint="run the command in the folder of the module, or install the module",
        ) from error
    except Exception as error:
        raise _make_import_error(name, error) from error


def _make_import_error(name: str, error: Exception) -> ModuleFailed:
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if "site-packages" not in frame.filename]
    frame = (user_frames or frames)[-1]
    command = ["python", name] if name.endswith(".py") else ["python", "-c", f"import {name}"]
    hint = f"run `{shlex.join(command)}` to see the whole error"
    if "pyspark" in Path(frames[-1].filename).parts:
        hint = "create columns and UDFs inside the job's function: Spark has not started yet"
    place_and_text = ": ".join(filter(None, [f"{frame.filename}:{frame.lineno}", str(error)]))
    return ModuleFailed(
        f"cannot import `{name}`: {type(error).__name__} in {place_and_text}", hint=hint
    )


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ModuleFailed(
            f"`{path}` is not a Python file",
            hint="name a module, or a file that exists",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
