"""The program, converted to ONNX and run by ONNX Runtime, gives the outputs of the eager module."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten, tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.facts import BYTES
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.wording import counted
from pytest_exportready.stages._lowering import (
    Leaves,
    Lowered,
    Lowering,
    import_extra,
    isolated_outputs,
    lowering_stage,
)
from pytest_exportready.stages._stage import MissingTool, SkipStage

CONVERTS = Rule(
    "ER672",
    "onnx_agrees",
    """With `lower=["onnx"]`: torch.onnx.export converts the program, and ONNX Runtime gives the eager outputs
    on the CPU.

    Needs the extra `pytest-exportready[onnx]`.

    Why it matters:
        An operator without a translation, or with a wrong one, is found here and not in production.

    Severity:
        error: the conversion fails, ONNX Runtime fails, or an output differs.
    """,
)
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_LOWERING = Lowering(
    CONVERTS,
    "ONNX",
    "Write {operator} with operators that torch.onnx translates, or pass a translation: "
    "`torch.onnx.export(..., custom_translation_table={{...}})`.",
)


def run(trial: Trial) -> Iterator[Observation]:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingTool(f"{', '.join(missing)} not installed: pip install 'pytest-exportready[onnx]'")
    program = trial.program
    assert program is not None
    expected = [x for x in flatten(trial.reference.output(trial.call))[0] if x is not None]  # ONNX has no None
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors((trial.call, expected))):
        raise SkipStage("ONNX Runtime has no bfloat16 in Python")
    outputs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    constants = [x for x in outputs if isinstance(x, ConstantArgument) and x.value is not None]
    if constants:
        yield CONVERTS.error(
            "output",
            f"The program returns {counted(len(constants), 'Python constant')}. ONNX supports tensors only.",
            "Return tensors only; keep Python numbers and strings out of the output.",
        )
        return
    import_extra("onnx", lambda: [importlib.import_module(name) for name in _PACKAGES])

    def lower(calls: list[Call]) -> Lowered:
        outputs = isolated_outputs(trial, convert_and_run, calls, folder)
        devices = [leaf.device if isinstance(leaf, torch.Tensor) else torch.device("cpu") for leaf in expected]
        if all(len(leaves) == len(devices) for leaves in outputs):
            outputs = [[leaf.to(device) for leaf, device in zip(leaves, devices, strict=True)] for leaves in outputs]
        return Lowered(outputs, {BYTES: sum(file.stat().st_size for file in folder.glob("model.onnx*"))})

    with tempfile.TemporaryDirectory(prefix="exportready-") as name:
        folder = Path(name)
        yield from _LOWERING.compare(trial, lower)


def convert_and_run(program: ExportedProgram, calls: list[Call], folder: Path) -> list[Leaves]:
    """Return the outputs of the ONNX model."""
    converted: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    path = folder / "model.onnx"
    converted.save(path, external_data=True)  # one file holds at most 2 GiB
    return _run(path, calls)


def _run(path: Path, calls: list[Call]) -> list[Leaves]:
    import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    outputs = []
    for call in calls:
        given = tensors(call)
        if len(given) != len(names):
            raise ValueError(f"the ONNX model has {len(names)} inputs, the program {len(given)} tensors: {names}")
        feed = {name: tensor.detach().cpu().numpy() for name, tensor in zip(names, given, strict=True)}
        outputs.append([torch.as_tensor(value) for value in session.run(None, feed)])
    return outputs


STAGE = lowering_stage("onnx", run, CONVERTS)
