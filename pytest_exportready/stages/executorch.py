"""The program, lowered to ExecuTorch and run by its runtime, gives the outputs of the eager module.

Operators are delegated to XNNPACK if the package has it and supports them, and run on the portable kernels otherwise.
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

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.symbolic_sizes import input_names, symbolic_sizes
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.torch_internals.programs import bound_sizes, without_bound
from pytest_exportready.case.facts import BYTES
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.stages._lowering import (
    Leaves,
    Lowered,
    Lowering,
    import_extra,
    isolated_outputs,
    lowering_stage,
)
from pytest_exportready.stages._stage import MissingTool

CONVERTS = Rule(
    "ER673",
    "executorch_agrees",
    """With `lower=["executorch"]`: ExecuTorch lowers the program, and its runtime gives the eager outputs on
    the CPU.

    Needs the extra `pytest-exportready[executorch]`.

    Why it matters:
        An operator without a kernel, or with a wrong one, is found here and not on the device.

    Severity:
        error: lowering fails, the runtime fails, or an output differs.
        warning: a dynamic dimension has no upper bound, so that ExecuTorch bounds it by the example.
    """,
)
_FILE = "model.pte"
_XNNPACK = "executorch.backends.xnnpack.partition.xnnpack_partitioner"
_LOWERING = Lowering(
    CONVERTS,
    "ExecuTorch",
    "Write {operator} with operators that have ExecuTorch kernels, or register a kernel "
    "(https://docs.pytorch.org/executorch).",
)


def run(trial: Trial) -> Iterator[Observation]:
    if find_spec("executorch") is None:
        raise MissingTool("executorch not installed: pip install 'pytest-exportready[executorch]'")
    program = trial.program
    assert program is not None
    leaves = dict(zip(input_names(program), flatten(trial.call)[0], strict=True))
    strided = [name for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor) and not _is_dense(leaf)]
    if strided:
        yield CONVERTS.error(
            strided[0],
            "This input is neither contiguous nor channels_last. The ExecuTorch runtime supports no other layout.",
            f"Export with `{strided[0]}.contiguous()`, and pass contiguous inputs to the program.",
        )
        return
    import_extra("executorch", _imported)

    def lower(calls: list[Call]) -> Lowered:
        outputs = isolated_outputs(trial, lower_and_run, calls, folder)
        return Lowered(outputs, {BYTES: (folder / _FILE).stat().st_size})

    with tempfile.TemporaryDirectory(prefix="exportready-") as name:
        folder = Path(name)
        yield from _LOWERING.compare(trial, lower)
    yield from _unbounded(program, trial.call)


def lower_and_run(program: ExportedProgram, calls: list[Call], folder: Path) -> list[Leaves]:
    """Return the outputs of the ExecuTorch runtime."""
    (folder / _FILE).write_bytes(_lowered(program, _largest_sizes(program, calls)))
    return _run(folder / _FILE, calls)


def _imported() -> tuple[Any, Any, list[Any]]:
    """Return the module that lowers, the runtime, and the partitioners that are installed."""
    exir, runtime = importlib.import_module("executorch.exir"), importlib.import_module("executorch.runtime")
    partitioners = [importlib.import_module(_XNNPACK).XnnpackPartitioner()] if find_spec(_XNNPACK) else []
    return exir, runtime.Runtime.get(), partitioners


def _lowered(program: ExportedProgram, largest: dict[str, int]) -> bytes:
    exir, _, partitioners = _imported()
    own = copy.deepcopy(program)
    bound_sizes(own, largest)
    return bytes(exir.to_edge_transform_and_lower(own, partitioner=partitioners).to_executorch().buffer)


def _is_dense(tensor: torch.Tensor) -> bool:
    channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return channels_last or tensor.is_contiguous()


def _unbounded_dims(program: ExportedProgram) -> Iterator[tuple[int, int, set[str]]]:
    """Yield input, dimension and symbols of every size without an upper bound."""
    unbounded = without_bound(program)
    for (leaf, dim), size in symbolic_sizes(program).items():
        symbols = {str(symbol) for symbol in size.free_symbols} & unbounded
        if symbols:
            yield leaf, dim, symbols


def _largest_sizes(program: ExportedProgram, calls: list[Call]) -> dict[str, int]:
    """Return the largest size in ``calls`` of every symbol without an upper bound: memory is planned for it."""
    largest: dict[str, int] = {}
    for leaf, dim, symbols in _unbounded_dims(program):
        size = max(flatten(call)[0][leaf].shape[dim] for call in calls)
        largest |= {symbol: max(size, largest.get(symbol, 0)) for symbol in symbols}
    return largest


def _unbounded(program: ExportedProgram, example: Call) -> Iterator[Finding]:
    for leaf, dim, _ in _unbounded_dims(program):
        name = input_names(program)[leaf]
        yield CONVERTS.warning(
            name,
            f"Dimension {dim} has no upper bound. ExecuTorch plans memory for the size of the example, "
            f"{flatten(example)[0][leaf].shape[dim]}.",
            f'Declare a bound: `dynamic_shapes={{"{name}": {{{dim}: Dim("batch", min=1, max=...)}}}}`.',
        )


def _run(path: Path, calls: list[Call]) -> list[Leaves]:
    _, runtime, _ = _imported()
    loaded = runtime.load_program(path)
    outputs = []
    for call in calls:
        method = loaded.load_method("forward")  # with the state that was written
        given = [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in flatten(call)[0]]
        leaves = method.execute(given)
        outputs.append([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
    return outputs


STAGE = lowering_stage("executorch", run, CONVERTS)
