"""The program, lowered to ExecuTorch, written as ``.pte`` and run by its runtime, gives the same numbers.

Operators go to XNNPACK where the package has it and takes them, the others to the portable kernels.
"""

from __future__ import annotations

import copy
import importlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.torch_internals.programs import bound_sizes, without_bound
from pytest_exportready.case.facts import BYTES
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import Leaves, Lowered, LoweringFailed, apart, prove, quietly
from pytest_exportready.stages._stage import MissingTool, Stage, StageInfrastructure

CONVERTS = Rule(
    "ER673",
    "executorch_agrees",
    'With lower=["executorch"]: ExecuTorch must lower the program (to XNNPACK and its portable kernels), and its '
    "runtime must load the .pte file, run it on the CPU and give what the trained module gives. It needs the extra "
    "[executorch].",
)
_XNNPACK = "executorch.backends.xnnpack.partition.xnnpack_partitioner"
_ADVICE = (
    "write {operator} with operators that ExecuTorch has kernels for, or register one for it; "
    "https://docs.pytorch.org/executorch has the list"
)


def run(trial: Trial) -> Iterator[Observation]:
    if find_spec("executorch") is None:
        raise MissingTool("no executorch: pip install 'pytest-exportready[executorch]'")
    program = trial.program
    assert program is not None
    example: Call = (trial.case.args, dict(trial.case.kwargs))
    leaves = dict(zip(_names(program), flatten(example)[0], strict=True))
    strided = [name for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor) and not _in_order(leaf)]
    if strided:
        yield CONVERTS.error(
            strided[0],
            "the example is neither contiguous nor channels_last, and the runtime of ExecuTorch takes nothing else",
            f"export with {strided[0]}.contiguous() as the example, and give the program such inputs",
        )
        return
    try:
        quietly(_imported)  # once, not in each child
    except LoweringFailed as error:
        raise StageInfrastructure(
            f"the extra [executorch] is there and cannot be used: {error.reason}",
            "pip install --upgrade 'pytest-exportready[executorch]', with the torch that it was built for",
        ) from error

    def lower(calls: list[Call]) -> Lowered:
        path, given = folder / "model.pte", folder / "answers.pt"

        def work() -> None:
            path.write_bytes(_lowered(program, _most(program, calls)))
            torch.save(_run(path, calls), given)

        apart(work)
        return Lowered(torch.load(given, weights_only=True), {BYTES: path.stat().st_size})

    with tempfile.TemporaryDirectory(prefix="exportready-") as made:
        folder = Path(made)
        yield from prove(trial, CONVERTS, "the program in ExecuTorch", _ADVICE, lower)
    yield from _unbounded(program, example)


def _imported() -> tuple[Any, Any, list[Any]]:
    """What lowers, what runs, and the partitioners that there are."""
    exir, runtime = importlib.import_module("executorch.exir"), importlib.import_module("executorch.runtime")
    partitioners = [importlib.import_module(_XNNPACK).XnnpackPartitioner()] if find_spec(_XNNPACK) else []
    return exir, runtime.Runtime.get(), partitioners


def _lowered(program: ExportedProgram, most: dict[str, int]) -> bytes:
    exir, _, partitioners = _imported()
    own = copy.deepcopy(program)
    bound_sizes(own, most)
    return bytes(exir.to_edge_transform_and_lower(own, partitioner=partitioners).to_executorch().buffer)


def _in_order(tensor: torch.Tensor) -> bool:
    last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return last or tensor.is_contiguous()


def _names(program: ExportedProgram) -> list[str]:
    """Of the inputs, in the order of the flat inputs of a call."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]


def _dynamic(program: ExportedProgram) -> Iterator[tuple[str, int, int, set[str]]]:
    """Name and number of every input with a size that is dynamic, the dimension, and the symbols in that size."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for leaf, name in enumerate(_names(program)):
        for dim, size in enumerate(getattr(values.get(name), "shape", ())):
            if isinstance(size, torch.SymInt):
                yield name, leaf, dim, {str(symbol) for symbol in size.node.expr.free_symbols}


def _most(program: ExportedProgram, calls: list[Call]) -> dict[str, int]:
    """For every size without an upper bound, the largest among ``calls``: memory is planned for so much."""
    most: dict[str, int] = {}
    for _, leaf, dim, symbols in _dynamic(program):
        largest = max(flatten(call)[0][leaf].shape[dim] for call in calls)
        for symbol in symbols & without_bound(program):
            most[symbol] = max(largest, most.get(symbol, 0))
    return most


def _unbounded(program: ExportedProgram, example: Call) -> Iterator[Finding]:
    for name, leaf, dim, symbols in _dynamic(program):
        if symbols & without_bound(program):
            size = flatten(example)[0][leaf].shape[dim]
            yield CONVERTS.warning(
                name,
                f"dimension {dim} has no upper bound: ExecuTorch plans memory ahead, and what it makes of this program "
                f"as it is takes {size} at the most, the size of the example",
                f'dynamic_shapes={{"{name}": {{{dim}: Dim("batch", min=1, max=...)}}}}',
            )


def _run(path: Path, calls: list[Call]) -> list[Leaves]:
    _, runtime, _ = _imported()
    loaded = runtime.load_program(path)
    answers = []
    for call in calls:
        method = loaded.load_method("forward")  # from the state that was written
        given = [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in flatten(call)[0]]
        leaves = method.execute(given)
        answers.append([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
    return answers


STAGE = Stage(
    run, rules=(CONVERTS,), after=("parity",), asked=lambda trial: "executorch" in trial.options.lower, opt_in="lower"
)
