"""The program, compiled ahead of time with AOTInductor and loaded again, gives the outputs of the eager module."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.execution.trial import NotCacheable, Observation, Trial
from pytest_exportready.analysis.processes.compiler_identity import compiler, compiler_identity
from pytest_exportready.analysis.torch_internals.compilers import aot_compiled, aot_loaded, compile_settings
from pytest_exportready.case.facts import BYTES, COMPILED
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import (
    Leaves,
    Lowered,
    Lowering,
    LoweringFailed,
    isolated_outputs,
    lowering_stage,
)
from pytest_exportready.stages._stage import MissingTool, StageInfrastructure

COMPILES = Rule(
    "ER671",
    "aotinductor_agrees",
    """With `lower=["aotinductor"]`: AOTInductor compiles the program, and the package gives the eager
    outputs.

    Needs a C++ compiler.

    Why it matters:
        An operator that inductor cannot compile, or compiles to something else, is found here and not in
        production.

    Severity:
        error: compiling, loading or running fails, or an output differs.
    """,
)
_NAME = "aotinductor"
_PACKAGE = "model.pt2"
_LOWERING = Lowering(
    COMPILES,
    "AOTInductor",
    "Write {operator} with operators that inductor lowers, or make it a `torch.library.custom_op` with a kernel.",
)
_MACHINE_FAULT = re.compile(r"Python\.h: No such file|cc1plus|Killed signal")


def run(trial: Trial) -> Iterator[Observation]:
    if shutil.which(compiler()) is None:
        raise MissingTool(f"C++ compiler {compiler()} not found: apt-get install g++, or set CXX")
    with tempfile.TemporaryDirectory(prefix="exportready-") as name:
        reused = _with_cached_package(trial, Path(name))
        if reused and not _has_findings(reused):
            yield from reused
            return
        observations = list(_LOWERING.compare(trial, lambda calls: _compiled(trial, calls, Path(name))))
        if trial.cache is not None and not _has_findings(observations):
            trial.cache.save_artifact(trial, _NAME, (Path(name) / _PACKAGE).read_bytes())
        yield from observations


def _with_cached_package(trial: Trial, folder: Path) -> list[Observation]:
    """Compare the package of an earlier run, which may itself be broken; empty if there is none."""
    content = trial.cache.load_artifact(trial, _NAME) if trial.cache is not None else None
    if content is None:
        return []
    (folder / _PACKAGE).write_bytes(content)
    facts = {COMPILED: "in an earlier run", BYTES: len(content)}
    return list(
        _LOWERING.compare(trial, lambda calls: Lowered(isolated_outputs(trial, run_package, calls, folder), facts))
    )


def _has_findings(observations: Iterable[Observation]) -> bool:
    return any(isinstance(seen, Finding) for seen in observations)


def _compiled(trial: Trial, calls: list[Call], folder: Path) -> Lowered:
    try:
        outputs = isolated_outputs(trial, compile_and_run, calls, folder)
    except LoweringFailed as error:
        if _MACHINE_FAULT.search(error.reason):
            problem, fix = f"the C++ compiler does not work: {error.reason}", "Repair the compiler, or set CXX."
            raise StageInfrastructure(problem, fix) from error
        raise
    return Lowered(outputs, {BYTES: (folder / _PACKAGE).stat().st_size})


def compile_and_run(program: ExportedProgram, calls: list[Call], folder: Path) -> list[Leaves]:
    """Return the outputs of the package that AOTInductor compiles."""
    with _own_cache(folder):
        aot_compiled(program, str(folder / _PACKAGE))
        return run_package(program, calls, folder)


def run_package(program: ExportedProgram, calls: list[Call], folder: Path) -> list[Leaves]:
    """Return the outputs of the package in ``folder``, compiled from ``program``."""
    with _own_cache(folder):
        return [_output(str(folder / _PACKAGE), call) for call in calls]


def _own_cache(folder: Path) -> AbstractContextManager[object]:
    """Let inductor keep its cache in ``folder``."""
    return mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(folder / "cache"))


def _output(package: str, call: Call) -> Leaves:
    args, kwargs = distinct((tuple(call[0]), dict(call[1])))
    leaves = flatten(aot_loaded(package)(*args, **kwargs))[0]
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def _tools() -> object:
    try:
        return compiler_identity(), compile_settings()
    except (ImportError, AttributeError) as error:
        raise NotCacheable("this torch does not expose the settings of inductor") from error


STAGE = lowering_stage(_NAME, run, COMPILES, _tools)
