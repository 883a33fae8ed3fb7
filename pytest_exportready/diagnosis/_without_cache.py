"""The fix for a model that returns a cache of keys and values: an argument if that works, else a wrapper."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import MESSAGE_LIMIT
from pytest_exportready.diagnosis._diagnosis import Failure

_LEAVES = (torch.Tensor, bool, int, float, str, type(None))


def without_cache(failure: Failure) -> str:
    """Return the fix: ``use_cache=False`` if the module then returns no cache, and a wrapper for its outputs."""
    case = failure.trial.case
    output = _output(failure, {**case.kwargs, "use_cache": False})
    if output is not None and not _has_unknown_leaf(output):
        fix = (
            'Set `example_kwargs={..., "use_cache": False}`. (`config.use_cache=False` does not reach a decoder with a'
            " config of its own, as in T5.)"
        )
        wrapper = _wrapper(failure, output, ["use_cache=False"])
    else:
        fix = "Set `config.use_cache=False` in every part of the model that has a config."
        wrapper = _wrapper(failure, _output(failure, dict(case.kwargs)), [])
    whole = f"{fix} Or wrap the model:\n{wrapper}"
    return whole if len(whole) <= MESSAGE_LIMIT else f"{fix} Or wrap the model and return the tensors that you need."


def _output(failure: Failure, kwargs: dict[str, Any]) -> Any:
    try:
        return failure.trial.reference.output((failure.trial.case.args, kwargs))
    except Exception:  # it does not take the argument
        return None


def _has_unknown_leaf(output: Any) -> bool:
    return not all(isinstance(leaf, _LEAVES) for _, leaf in named_leaves(output))


def _wrapper(failure: Failure, output: Any, extra: list[str]) -> str:
    case = failure.trial.case
    try:
        names = list(inspect.signature(failure.module.forward).parameters)[: len(case.args)]
    except (TypeError, ValueError):
        names = []
    names = names if len(names) == len(case.args) else [f"input{n}" for n in range(len(case.args))]
    given = [*names, *(f"{name}={name}" for name in case.kwargs), *extra]
    return (
        "class ForExport(torch.nn.Module):\n"
        "    def __init__(self, model): super().__init__(); self.model = model\n"
        f"    def forward(self, {', '.join([*names, *case.kwargs])}):\n"
        f"        output = self.model({', '.join(given)})\n"
        f"        return output[{_tensor_of(output)!r}]"
    )


def _tensor_of(output: Any) -> Any:
    """Return name or position of the first part of an output that holds tensors only."""
    parts = output if isinstance(output, Mapping) else dict(enumerate(output if type(output) in (tuple, list) else ()))
    return next((name for name, part in parts.items() if part is not None and not _has_unknown_leaf(part)), 0)
