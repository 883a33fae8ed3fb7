"""The program with its operators decomposed into core ATen, from which backends start, gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.eager_reference import Call
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import Leaves, prove, quietly
from pytest_exportready.stages._stage import Stage, Trial

DECOMPOSES = Rule(
    "ER670",
    "program_decomposes",
    'With lower=["decompose"]: run_decompositions(), where every lowering begins, must succeed on the program, and what'
    " it makes must give what the trained module gives.",
)
_ADVICE = "write {operator} with operators that torch decomposes, or register a decomposition for it"


def run(trial: Trial) -> Iterator[Finding]:
    program = trial.program
    assert program is not None

    def answers(calls: list[Call]) -> list[Leaves]:
        given: list[Leaves] = []

        def work() -> None:
            decomposed = program.run_decompositions()
            trial.facts["nodes"] = len(decomposed.graph.nodes)
            running = RunningProgram(decomposed)
            given.extend(flatten(running.sequence([call])[0])[0] for call in calls)

        quietly(work)
        return given

    yield from prove(trial, DECOMPOSES, "the decomposed program", _ADVICE, answers)


STAGE = Stage(run, rules=(DECOMPOSES,), after=("parity",), asked=lambda case, options: "decompose" in options.lower)
