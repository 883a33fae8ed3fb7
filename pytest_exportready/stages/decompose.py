"""The program decomposed into core ATen operators, from which backends start, gives the same outputs."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.facts import NODES
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._lowering import Lowered, Lowering, lowering_stage, quietly

DECOMPOSES = Rule(
    "ER670",
    "program_decomposes",
    """With `lower=["decompose"]`: `run_decompositions()` succeeds, and its program gives the outputs of the
    eager module.

    Why it matters:
        Every backend starts from the decomposed program.

    Severity:
        error: decomposing fails, or an output differs.
    """,
)
_LOWERING = Lowering(
    DECOMPOSES,
    "core ATen",
    "Write {operator} with operators that torch decomposes, or register a decomposition for it.",
)


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

    yield from _LOWERING.compare(trial, lower)


STAGE = lowering_stage("decompose", run, DECOMPOSES)
