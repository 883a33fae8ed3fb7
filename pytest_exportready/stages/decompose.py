"""The program with its operators decomposed into core ATen, from which backends start, gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.facts import NODES
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._lowering import Lowered, prove, quietly
from pytest_exportready.stages._stage import Stage

DECOMPOSES = Rule(
    "ER670",
    "program_decomposes",
    'With lower=["decompose"]: run_decompositions(), where every lowering begins, must succeed on the program, and what'
    " it makes must give what the trained module gives.",
)
_ADVICE = "write {operator} with operators that torch decomposes, or register a decomposition for it"


def run(trial: Trial) -> Iterator[Observation]:
    program = trial.program
    assert program is not None

    def lower(calls: list[Call]) -> Lowered:
        def work() -> Lowered:
            decomposed = program.run_decompositions()
            running = RunningProgram(decomposed)
            outputs = [flatten(running.outputs([call])[0])[0] for call in calls]
            return Lowered(outputs, {NODES: len(decomposed.graph.nodes)})

        return quietly(work)

    yield from prove(trial, DECOMPOSES, "the decomposed program", _ADVICE, lower)


STAGE = Stage(
    run, rules=(DECOMPOSES,), after=("parity",), asked=lambda trial: "decompose" in trial.options.lower, opt_in="lower"
)
