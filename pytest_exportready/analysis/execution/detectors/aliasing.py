"""Observe what a call does to the caller's tensors: its inputs, and the outputs of the call before."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten, named_leaves
from pytest_exportready.analysis.module.nested_values import inside, user_packages
from pytest_exportready.analysis.module.snapshot import equal_bits, preserved
from pytest_exportready.analysis.module.tensor_values import storage_address
from pytest_exportready.analysis.torch_internals.modules import plain_attributes


@dataclass
class CallEffects:
    """What two calls in a row did to inputs and outputs."""

    mutated: dict[str, torch.Tensor] = field(default_factory=dict)
    """Inputs that the first call changed, by path (``args[0]``), as they are after it."""
    changed_containers: list[str] = field(default_factory=list)
    """Inputs that are containers (``args[0]``) in which the first call added, removed or replaced entries."""
    overwritten: list[str] = field(default_factory=list)
    """Outputs of the first call (``output[0]``) that the second call changed."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Outputs of the first call that share memory with the module or the inputs, and what they share it with."""


def call_effects(module: nn.Module, first: Call, second: Call | None = None) -> CallEffects:
    """Call ``module`` in eval mode as a user does, without copying its outputs, and restore it.

    Raises:
        Exception: whatever ``module`` raises on ``first``; what it raises on ``second`` is ignored.
    """
    found = CallEffects()
    with preserved(module), torch.no_grad():
        if not isinstance(module, torch.fx.GraphModule):  # an exported program cannot change its mode
            module.eval()
        given = distinct((tuple(first[0]), dict(first[1])))
        before_call = [_parts(value) for value in _values(given)]
        output = module(*given[0], **given[1])
        for (path, now), (_, before) in zip(input_leaves(given), input_leaves(first), strict=False):
            if isinstance(now, torch.Tensor) and isinstance(before, torch.Tensor) and not equal_bits(now, before):
                found.mutated[path] = now
        names = [f"args[{n}]" for n in range(len(given[0]))] + [f"kwargs[{name!r}]" for name in given[1]]
        found.changed_containers = [
            name
            for name, before, value in zip(names, before_call, _values(given), strict=True)
            if before != _parts(value)
        ]
        owners = {**_module_tensors(module), **{memory(leaf): path for path, leaf in input_leaves(given)}}
        outputs = [(f"output{path}", leaf) for path, leaf in named_leaves(output) if isinstance(leaf, torch.Tensor)]
        found.aliases = {path: owners[memory(leaf)] for path, leaf in outputs if owners.get(memory(leaf))}
        if second is not None:
            found.overwritten = list(_overwritten(module, outputs, second))
    return found


def output_with_shared_memory(module: nn.Module, call: Call) -> Any:
    """Return the output for copies of the inputs that share memory where the inputs do.

    Raises:
        Exception: whatever ``module``, or ``copy.deepcopy`` of the inputs, raises.
    """
    with preserved(module), torch.no_grad():
        module.eval()
        args, kwargs = copy.deepcopy((tuple(call[0]), dict(call[1])))
        return distinct(module(*args, **kwargs))


def input_leaves(call: Call) -> list[tuple[str, Any]]:
    """Return path and leaf of every input, such as ``args[0]['ids']`` and ``kwargs['mask']``."""
    return [
        (f"{name}{path}", leaf)
        for name, given in (("args", tuple(call[0])), ("kwargs", dict(call[1])))
        for path, leaf in named_leaves(given)
    ]


def _overwritten(module: nn.Module, outputs: list[tuple[str, torch.Tensor]], second: Call) -> Iterator[str]:
    copies = [leaf.clone() for _, leaf in outputs]
    args, kwargs = distinct((tuple(second[0]), dict(second[1])))
    try:
        module(*args, **kwargs)
    except Exception:
        return
    for (path, leaf), before in zip(outputs, copies, strict=True):
        if not equal_bits(leaf, before):
            yield path


def _values(call: Call) -> list[Any]:
    return [*call[0], *call[1].values()]


def _parts(value: Any) -> tuple[str, list[int]]:
    leaves, spec = flatten(value)
    return repr(spec), [id(leaf) for leaf in leaves]


def _module_tensors(module: nn.Module) -> dict[int, str]:
    """Return the names of the module's tensors by memory; parameters and buffers take precedence over attributes."""
    tensors: list[tuple[str, Any]] = [*module.named_parameters(), *module.named_buffers()]
    packages = user_packages(module)
    for prefix, part in module.named_modules():
        for name, value in plain_attributes(part).items():
            tensors += [(f"{prefix}.{name}{place}".removeprefix("."), kept) for place, kept in inside(value, packages)]
    return {memory(value): name for name, value in reversed(tensors)}


def memory(leaf: Any) -> int:
    """Return the address of the storage; 0 for what has none."""
    return storage_address(leaf) if isinstance(leaf, torch.Tensor) else 0
