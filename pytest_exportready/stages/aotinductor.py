"""The program, compiled ahead of time with AOTInductor and loaded again, gives the same numbers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pytest_exportready.analysis.execution.eager_reference import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.processes.compiler_identity import compiler, compiler_identity
from pytest_exportready.analysis.torch_internals.compilers import aot_compiled, aot_loaded, compile_settings
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import Leaves, LoweringFailed, apart, prove
from pytest_exportready.stages._stage import Lacking, Stage, StageInfrastructure, Trial, Unremembered

COMPILES = Rule(
    "ER671",
    "aotinductor_agrees",
    'With lower=["aotinductor"]: AOTInductor must compile the program, the package must load, run and give what the '
    "trained module gives. It needs a C++ compiler.",
)
_NAME, _WHAT = "aotinductor", "the program compiled by AOTInductor"
_ADVICE = "write {operator} with operators that inductor lowers, or make it a torch.library.custom_op with a kernel"
_NO_MACHINE = re.compile(r"No space left|Python\.h: No such file|cc1plus|Killed signal|Cannot allocate memory")


def run(trial: Trial) -> Iterator[Finding]:
    if shutil.which(compiler()) is None:
        raise Lacking(f"no C++ compiler {compiler()}: apt-get install g++, or name one in CXX")
    with tempfile.TemporaryDirectory(prefix="exportready-") as made:
        if _kept_agrees(trial, Path(made)):
            return
        trial.facts.clear()
        package = Path(made) / "model.pt2"
        found = list(prove(trial, COMPILES, _WHAT, _ADVICE, lambda calls: _compiled(trial, package, calls)))
        if trial.memory is not None and not found:
            trial.memory.keep_artifact(trial, _NAME, package.read_bytes())
        yield from found


def _kept_agrees(trial: Trial, folder: Path) -> bool:
    """Whether a package of an earlier run is there, runs, and agrees now; its faults are no fault of the program."""
    content = trial.memory.artifact(trial, _NAME) if trial.memory is not None else None
    if content is None:
        return False
    package = folder / "kept.pt2"
    package.write_bytes(content)
    trial.facts |= {"compiled": "in an earlier run", "bytes": len(content)}
    return not list(prove(trial, COMPILES, _WHAT, _ADVICE, lambda calls: _given(package, calls)))


def _compiled(trial: Trial, package: Path, calls: list[Call]) -> list[Leaves]:
    program = trial.program
    assert program is not None

    def compile_first() -> None:
        aot_compiled(program, str(package))

    try:
        answers = _given(package, calls, compile_first)
    except LoweringFailed as error:
        if _NO_MACHINE.search(error.reason):
            raise StageInfrastructure(f"the C++ compiler cannot work: {error.reason}") from error
        raise
    trial.facts["bytes"] = package.stat().st_size
    return answers


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
        raise Unremembered("this torch does not tell how inductor is set") from error


STAGE = Stage(
    run,
    rules=(COMPILES,),
    after=("parity",),
    asked=lambda case, options: _NAME in options.lower,
    tools=_tools,
)
