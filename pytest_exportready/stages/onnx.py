"""The program, written as ONNX and run by ONNX Runtime, gives the same numbers."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.facts import BYTES
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.wording import counted
from pytest_exportready.stages._lowering import Leaves, Lowered, LoweringFailed, apart, prove, quietly
from pytest_exportready.stages._stage import MissingTool, SkipStage, Stage, StageInfrastructure

CONVERTS = Rule(
    "ER672",
    "onnx_agrees",
    'With lower=["onnx"]: torch.onnx.export must write the program, ONNX Runtime must load and run it on the CPU and '
    "give what the trained module gives. It needs the extra [onnx].",
)
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_ADVICE = (
    "write {operator} with operators that torch.onnx knows, "
    "or give it one: torch.onnx.export(..., custom_translation_table={{...}})"
)


def run(trial: Trial) -> Iterator[Observation]:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingTool(f"no {', '.join(missing)}: pip install 'pytest-exportready[onnx]'")
    program = trial.program
    assert program is not None
    example: Call = (trial.case.args, dict(trial.case.kwargs))
    wanted = [leaf for leaf in flatten(trial.reference.output(example))[0] if leaf is not None]  # ONNX has no None
    tensors = [leaf for leaf in (*flatten(example)[0], *wanted) if isinstance(leaf, torch.Tensor)]
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors):
        raise SkipStage("ONNX Runtime gives no bfloat16 to Python")
    outputs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    numbers = [x for x in outputs if isinstance(x, ConstantArgument) and x.value is not None]
    if numbers:
        message = f"the program returns {counted(len(numbers), 'constant')} besides tensors, which ONNX has not"
        yield CONVERTS.error(
            "output", message, "return tensors only: keep Python numbers and strings out of the output"
        )
        return
    try:
        quietly(lambda: [importlib.import_module(name) for name in _PACKAGES])  # once, not in each child
    except LoweringFailed as error:
        problem = f"the extra [onnx] is there and cannot be used: {error.reason}"
        raise StageInfrastructure(problem, "pip install --upgrade 'pytest-exportready[onnx]'") from error

    def lower(calls: list[Call]) -> Lowered:
        path, given = folder / "model.onnx", folder / "answers.pt"

        def work() -> None:
            converted: Any = torch.onnx.export(program, dynamo=True, verbose=False)
            converted.save(path, external_data=True)  # one file holds 2 GiB at the most
            torch.save(_run(path, calls), given)

        apart(work)
        facts = {BYTES: sum(file.stat().st_size for file in folder.glob("model.onnx*"))}
        devices = [leaf.device if isinstance(leaf, torch.Tensor) else torch.device("cpu") for leaf in wanted]
        outputs: list[Leaves] = torch.load(given, weights_only=True)
        if any(len(leaves) != len(devices) for leaves in outputs):
            return Lowered(outputs, facts)
        placed = [[leaf.to(device) for leaf, device in zip(leaves, devices, strict=True)] for leaves in outputs]
        return Lowered(placed, facts)

    with tempfile.TemporaryDirectory(prefix="exportready-") as made:
        folder = Path(made)
        yield from prove(trial, CONVERTS, "the program in ONNX Runtime", _ADVICE, lower)


def _run(path: Path, calls: list[Call]) -> list[Leaves]:
    import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    answers = []
    for call in calls:
        tensors = [leaf for leaf in flatten(call)[0] if isinstance(leaf, torch.Tensor)]
        if len(tensors) != len(names):
            raise ValueError(f"the ONNX model has {len(names)} inputs, the program {len(tensors)} tensors: {names}")
        feed = {name: tensor.detach().cpu().numpy() for name, tensor in zip(names, tensors, strict=True)}
        answers.append([torch.as_tensor(value) for value in session.run(None, feed)])
    return answers


STAGE = Stage(
    run, rules=(CONVERTS,), after=("parity",), asked=lambda trial: "onnx" in trial.options.lower, opt_in="lower"
)
