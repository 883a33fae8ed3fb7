"""The program, compiled ahead of time with AOTInductor and loaded again, gives the same numbers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.execution.trial import NotCacheable, Observation, Trial
from pytest_exportready.analysis.processes.compiler_identity import compiler, compiler_identity
from pytest_exportready.analysis.torch_internals.compilers import aot_compiled, aot_loaded, compile_settings
from pytest_exportready.case.facts import BYTES, COMPILED
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import Leaves, Lowered, LoweringFailed, apart, prove
from pytest_exportready.stages._stage import MissingTool, Stage, StageInfrastructure

COMPILES = Rule(
    "ER671",
    "aotinductor_agrees",
    'With lower=["aotinductor"]: AOTInductor must compile the program, the package must load, run and give what the '
    "trained module gives. It needs a C++ compiler.",
)
_NAME, _WHAT = "aotinductor", "the program compiled by AOTInductor"
_ADVICE = "write {operator} with operators that inductor lowers, or make it a torch.library.custom_op with a kernel"
_NO_MACHINE = re.compile(r"No space left|Python\.h: No such file|cc1plus|Killed signal|Cannot allocate memory")


def run(trial: Trial) -> Iterator[Observation]:
    if shutil.which(compiler()) is None:
        raise MissingTool(f"no C++ compiler {compiler()}: apt-get install g++, or name one in CXX")
    with tempfile.TemporaryDirectory(prefix="exportready-") as made:
        reused = _with_cached_package(trial, Path(made))
        if reused and not _has_findings(reused):
            yield from reused
            return
        package = Path(made) / "model.pt2"
        seen = list(prove(trial, COMPILES, _WHAT, _ADVICE, lambda calls: _compiled(trial.program, package, calls)))
        if trial.cache is not None and not _has_findings(seen):
            trial.cache.save_artifact(trial, _NAME, package.read_bytes())
        yield from seen


def _with_cached_package(trial: Trial, folder: Path) -> list[Observation]:
    """Prove the package of an earlier run; empty if there is none. Its faults are not faults of the program."""
    content = trial.cache.load_artifact(trial, _NAME) if trial.cache is not None else None
    if content is None:
        return []
    package = folder / "cached.pt2"
    package.write_bytes(content)
    facts = {COMPILED: "in an earlier run", BYTES: len(content)}
    return list(prove(trial, COMPILES, _WHAT, _ADVICE, lambda calls: Lowered(_given(package, calls), facts)))


def _has_findings(observations: Iterable[Observation]) -> bool:
    return any(isinstance(seen, Finding) for seen in observations)


def _compiled(program: ExportedProgram | None, package: Path, calls: list[Call]) -> Lowered:
    assert program is not None

    def compile_first() -> None:
        aot_compiled(program, str(package))

    try:
        outputs = _given(package, calls, compile_first)
    except LoweringFailed as error:
        if _NO_MACHINE.search(error.reason):
            raise StageInfrastructure(f"the C++ compiler cannot work: {error.reason}") from error
        raise
    return Lowered(outputs, {BYTES: package.stat().st_size})


def _given(package: Path, calls: list[Call], before: Callable[[], None] = lambda: None) -> list[Leaves]:
    """What the package gives for each call, in a process of its own."""
    given = package.with_name("answers.pt")

    def work() -> None:
        with _cache_in(package.with_name("cache")):
            before()
            torch.save([_answer(str(package), call) for call in calls], given)

    apart(work)
    answers: list[Leaves] = torch.load(given, weights_only=True)
    return answers


def _answer(package: str, call: Call) -> Leaves:
    args, kwargs = distinct((tuple(call[0]), dict(call[1])))
    leaves = flatten(aot_loaded(package)(*args, **kwargs))[0]
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """A cache of its own: compiled code of others is neither used nor left to them."""
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
        if before is not None:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def _tools() -> object:
    try:
        return compiler_identity(), compile_settings()
    except (ImportError, AttributeError) as error:
        raise NotCacheable("this torch does not tell how inductor is set") from error


STAGE = Stage(
    run,
    rules=(COMPILES,),
    after=("parity",),
    asked=lambda trial: _NAME in trial.options.lower,
    opt_in="lower",
    tools=_tools,
)
