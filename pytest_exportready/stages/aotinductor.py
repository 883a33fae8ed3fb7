"""The program, compiled ahead of time with AOTInductor and loaded again, gives the same numbers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pytest_exportready.finding import Finding, Rule
from pytest_exportready.proof.pytree import distinct, flatten
from pytest_exportready.proof.truth import Call
from pytest_exportready.stage import SkipStage, Stage, StageInfrastructure, Trial
from pytest_exportready.stages._lowered import Leaves, LoweringFailed, apart, prove
from pytest_exportready.torch_internals import aot_compiled, aot_loaded

COMPILES = Rule(
    "ER671",
    "aotinductor_agrees",
    'With lower=["aotinductor"]: AOTInductor must compile the program, the package must load, run and give what the '
    "trained module gives. It needs a C++ compiler.",
)
_ADVICE = "write {operator} with operators that inductor lowers, or make it a torch.library.custom_op with a kernel"
_NO_MACHINE = re.compile(r"No space left|Python\.h: No such file|cc1plus|Killed signal|Cannot allocate memory")


def run(trial: Trial) -> Iterator[Finding]:
    compiler = os.environ.get("CXX") or "g++"
    if shutil.which(compiler) is None:
        raise SkipStage(f"no C++ compiler {compiler}: apt-get install g++, or name one in CXX")
    program = trial.program
    assert program is not None

    def answers(calls: list[Call]) -> list[Leaves]:
        package, given = folder / "model.pt2", folder / "answers.pt"

        def work() -> None:
            with _cache_in(folder / "cache"):
                path = aot_compiled(program, str(package))
                torch.save([_answer(path, call) for call in calls], given)

        try:
            apart(work)
        except LoweringFailed as error:
            if _NO_MACHINE.search(error.reason):
                raise StageInfrastructure(f"the C++ compiler cannot work: {error.reason}") from error
            raise
        trial.facts["bytes"] = package.stat().st_size
        answers: list[Leaves] = torch.load(given, weights_only=True)
        return answers

    with tempfile.TemporaryDirectory(prefix="exportready-") as made:
        folder = Path(made)
        yield from prove(trial, COMPILES, "the program compiled by AOTInductor", _ADVICE, answers)


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


STAGE = Stage(run, rules=(COMPILES,), after=("parity",), asked=lambda case, options: "aotinductor" in options.lower)
