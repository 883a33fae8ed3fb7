"""Build the keys of cached verdicts and compiled programs, which change if anything that they depend on does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.execution.trial import NotCacheable, Trial
from pytest_exportready.analysis.program.canonical_form import digest
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.analysis.program.nodes import calls, is_users_operator, on_cpu
from pytest_exportready.analysis.program.weights import weights_fingerprint
from pytest_exportready.analysis.torch_internals.numerics import precision_settings
from pytest_exportready.judge.cache.canonical_values import CanonicalValues
from pytest_exportready.judge.cache.code import code_fingerprint, installed_fingerprint
from pytest_exportready.judge.cache.topology import topology
from pytest_exportready.stages import all_stages

_NUMERICS = ("ATEN_", "CUBLAS", "CUDNN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "NVIDIA_TF32", "OMP_", "ONEDNN_",
             "TORCH_ALLOW_TF32")  # fmt: skip
"""Prefixes of environment variables that change how the libraries under torch compute."""


def verdict_key(trial: Trial) -> str:
    """Return the key of the verdict on the program of ``trial``.

    It depends on graph, weights, the module's other values, its outputs, inputs, options, the compilers that lower it,
    the code that all of these can reach, the settings of torch and the machine.

    Raises:
        NotCacheable: An input, a value or a function cannot be compared with another run.
    """
    case, values = trial.case, CanonicalValues()
    given = (trial.call, case.more_inputs, case.golden, case.checkpoint)
    settings = (case.golden_tolerance, case.target_device, case.stateful_calls, case.allow_mutation, case.trainable)
    parts = (values.of(case.model, "the model"), values.of(given, "the inputs"), values.of(case.loss, "loss"))
    return digest(
        _program(trial.program),
        parts,
        values.of(_outputs(trial), "an output"),
        (str(settings), str(trial.options), trial.mode),
        values.of(_tools(trial), "a compiler's settings"),
        code_fingerprint(values.modules),
        _settings(),
        _machine(trial.program),
    )


def artifact_key(trial: Trial, stage: str) -> str:
    """Return the key of what ``stage`` compiles from the program of ``trial``.

    It depends on graph, weights, sizes of the example inputs (a hint to compilers), the compilers, installed versions,
    the settings of torch and the machine.

    Raises:
        NotCacheable: The program has custom operators, whose code is not part of the graph.
    """
    assert trial.program is not None
    if any(map(is_users_operator, calls(trial.program))):
        raise NotCacheable("it has custom operators")
    example = [(path, _form(leaf)) for path, leaf in named_leaves(trial.call)]
    return digest(
        stage,
        _program(trial.program),
        example,
        CanonicalValues().of(all_stages()[stage].tools(), "a compiler's settings"),
        installed_fingerprint(),
        _settings(),
        _machine(trial.program),
    )


def _machine(program: ExportedProgram | None) -> str:
    """Return the key of the machine; its GPUs, which CUDA would have to start for, count for programs on them."""
    assert program is not None
    return (topology(devices=lambda: iter(())) if on_cpu(program) else topology()).key


def _program(program: ExportedProgram | None) -> tuple[str, str]:
    assert program is not None
    return graph_fingerprint(program), weights_fingerprint(program)


def _outputs(trial: Trial) -> list[Any]:
    """Return the outputs for all inputs, which show what forward reads in addition, such as a file."""
    calls = [trial.call, *((tuple(args), kwargs) for args, kwargs in trial.case.more_inputs)]
    return [named_leaves(output) for output in trial.reference.outputs(calls)]


def _tools(trial: Trial) -> Mapping[str, object]:
    asked = {name: stage for name, stage in all_stages().items() if stage.asked(trial)}
    return {name: stage.tools() for name, stage in asked.items()}


def _form(leaf: object) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf) if isinstance(leaf, (bool, int, float, str)) else type(leaf).__name__
    strides = leaf.stride() if leaf.layout == torch.strided else leaf.layout
    return f"{leaf.dtype} {tuple(leaf.shape)} {strides} {leaf.device}"


def _settings() -> tuple[object, ...]:
    return (
        str(torch.get_default_dtype()),
        torch.get_num_threads(),
        precision_settings(),
        sorted((name, value) for name, value in os.environ.items() if name.startswith(_NUMERICS)),
    )
