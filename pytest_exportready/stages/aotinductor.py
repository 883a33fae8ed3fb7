"""The program, compiled ahead of time with AOTInductor and loaded again, gives the outputs of the eager module."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
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
_LOWERING = Lowering(
    COMPILES,
    "AOTInductor",
    "Write {operator} with operators that inductor lowers, or make it a `torch.library.custom_op` with a kernel.",
)
_MACHINE_FAULT = re.compile(r"No space left|Python\.h: No such file|cc1plus|Killed signal|Cannot allocate memory")


def run(trial: Trial) -> Iterator[Observation]:
    if shutil.which(compiler()) is None:
        raise MissingTool(f"C++ compiler {compiler()} not found: apt-get install g++, or set CXX")
    with tempfile.TemporaryDirectory(prefix="exportready-") as name:
        reused = _with_cached_package(trial, Path(name))
        if reused and not _has_findings(reused):
            yield from reused
            return
        package = Path(name) / "model.pt2"
        observations = list(_LOWERING.compare(trial, lambda calls: _compiled(trial.program, package, calls)))
        if trial.cache is not None and not _has_findings(observations):
            trial.cache.save_artifact(trial, _NAME, package.read_bytes())
        yield from observations


def _with_cached_package(trial: Trial, folder: Path) -> list[Observation]:
    """Compare the package of an earlier run, which may itself be broken; empty if there is none."""
    content = trial.cache.load_artifact(trial, _NAME) if trial.cache is not None else None
    if content is None:
        return []
    package = folder / "cached.pt2"
    package.write_bytes(content)
    facts = {COMPILED: "in an earlier run", BYTES: len(content)}
    return list(_LOWERING.compare(trial, lambda calls: Lowered(_outputs(package, calls), facts)))


def _has_findings(observations: Iterable[Observation]) -> bool:
    return any(isinstance(seen, Finding) for seen in observations)


def _compiled(program: ExportedProgram | None, package: Path, calls: list[Call]) -> Lowered:
    assert program is not None
    try:
        outputs = _outputs(package, calls, lambda: aot_compiled(program, str(package)))
    except LoweringFailed as error:
        if _MACHINE_FAULT.search(error.reason):
            problem, fix = f"the C++ compiler does not work: {error.reason}", "Repair the compiler, or set CXX."
            raise StageInfrastructure(problem, fix) from error
        raise
    return Lowered(outputs, {BYTES: package.stat().st_size})


def _outputs(package: Path, calls: list[Call], before: Callable[[], object] = lambda: None) -> list[Leaves]:
    """Return the outputs of ``package``, with an inductor cache of its own."""

    def work() -> list[Leaves]:
        with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(package.with_name("cache"))):
            before()
            return [_output(str(package), call) for call in calls]

    return isolated_outputs(work, package.parent)


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
