"""What a verdict, and a compiled program, depend on, as one key: if any of it is another, so is the key."""

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
from pytest_exportready.analysis.program.nodes import calls, is_users_operator
from pytest_exportready.analysis.program.weights import weights_fingerprint
from pytest_exportready.judge.cache.canonical_values import Spelling
from pytest_exportready.judge.cache.code import code_fingerprint, installed_fingerprint
from pytest_exportready.judge.cache.topology import topology
from pytest_exportready.stages import all_stages

_NUMERICS = ("ATEN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "NVIDIA_TF32", "OMP_", "ONEDNN_")
"""How variables begin by which libraries under torch compute otherwise."""


def verdict_key(trial: Trial) -> str:
    """Key of the verdict on the program of ``trial``.

    Graph, weights, the module's own values that are in neither, what the trained module answers now, inputs, options,
    the compilers that lower it, the code that all of these can reach, torch's settings and the machine. Raises
    Unremembered for a case with an input, a value or a function that cannot be compared with another run's.
    """
    case, spelled = trial.case, Spelling()
    given = (case.args, dict(case.kwargs), case.more_inputs, case.golden, case.checkpoint)
    told = (case.golden_tolerance, case.target_device, case.stateful_calls, case.allow_mutation, case.trainable)
    parts = (
        spelled.value(case.model, "the model"),
        spelled.value(given, "the inputs"),
        spelled.value(case.loss, "loss"),
    )
    return digest(
        _program(trial.program),
        parts,
        spelled.value(_answers(trial), "an answer"),
        (str(told), str(trial.options), trial.mode),
        spelled.value(_tools(trial), "a compiler's settings"),
        code_fingerprint(spelled.modules),
        _settings(),
        topology().key,
    )


def artifact_key(trial: Trial, stage: str) -> str:
    """Key of what ``stage`` makes of the program of ``trial``: graph, weights, sizes of the example, which compilers
    take as a hint, the compilers, installed versions, torch's settings and the machine.

    Raises Unremembered for a program with operators of the user's: what they come to, no key of a graph knows.
    """
    assert trial.program is not None
    if any(map(is_users_operator, calls(trial.program))):
        raise NotCacheable("it has custom operators")
    example = [(path, _form(leaf)) for path, leaf in named_leaves(trial.call)]
    return digest(
        stage,
        _program(trial.program),
        example,
        Spelling().value(all_stages()[stage].tools(), "a compiler's settings"),
        installed_fingerprint(),
        _settings(),
        topology().key,
    )


def _program(program: ExportedProgram | None) -> tuple[str, str]:
    assert program is not None
    return graph_fingerprint(program), weights_fingerprint(program)


def _answers(trial: Trial) -> list[Any]:
    """To the example, and to the other inputs: what forward reads besides, such as a file, shows in them."""
    case = trial.case
    calls = [(case.args, dict(case.kwargs)), *((tuple(args), kwargs) for args, kwargs in case.more_inputs)]
    return [named_leaves(answer) for answer in trial.reference.outputs(calls)]


def _tools(trial: Trial) -> Mapping[str, object]:
    asked = {name: stage for name, stage in all_stages().items() if stage.asked(trial)}
    return {name: stage.tools() for name, stage in asked.items()}


def _form(leaf: object) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf) if isinstance(leaf, (bool, int, float, str)) else type(leaf).__name__
    strides = leaf.stride() if leaf.layout == torch.strided else leaf.layout
    return f"{leaf.dtype} {tuple(leaf.shape)} {strides} {leaf.device}"


def _settings() -> tuple[object, ...]:
    backends = torch.backends
    return (
        str(torch.get_default_dtype()),
        torch.get_float32_matmul_precision(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        (backends.mkldnn.enabled, backends.cudnn.enabled, backends.cudnn.benchmark, backends.cudnn.deterministic),
        sorted((name, value) for name, value in os.environ.items() if name.startswith(_NUMERICS)),
    )
