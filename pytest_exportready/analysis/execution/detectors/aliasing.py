"""What a call does to what the caller holds: its inputs, and the outputs of the call before."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, flatten, named_leaves
from pytest_exportready.analysis.module.nested_values import inside, users_packages
from pytest_exportready.analysis.module.snapshot import equal_bits, preserved
from pytest_exportready.analysis.module.tensor_values import storage_address
from pytest_exportready.analysis.torch_internals.modules import plain_attributes


@dataclass
class HandedOver:
    """written: inputs that the first call changed, by path (``args[0]``), as they are after it.
    replaced: containers among the inputs (``args[0]``) in which it put, took or exchanged something.
    overwritten: outputs of the first call (``output[0]``) that the second changed.
    shared: outputs of the first call with memory of the module or of the inputs, and whose it is.
    """

    written: dict[str, torch.Tensor] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)


def hand_over(module: nn.Module, first: Call, second: Call | None = None) -> HandedOver:
    """Call ``module`` in eval mode as a user does, without copies of what it gives, and put it back as it was.

    Raises what ``module`` raises on ``first``; what it raises on ``second`` does not matter.
    """
    found = HandedOver()
    with preserved(module), torch.no_grad():
        if not isinstance(module, torch.fx.GraphModule):  # an exported one has no modes
            module.eval()
        given = distinct((tuple(first[0]), dict(first[1])))
        held = [_parts(whole) for whole in _wholes(given)]
        output = module(*given[0], **given[1])
        for (path, now), (_, before) in zip(input_leaves(given), input_leaves(first), strict=False):
            if isinstance(now, torch.Tensor) and isinstance(before, torch.Tensor) and not equal_bits(now, before):
                found.written[path] = now
        names = [f"args[{n}]" for n in range(len(given[0]))] + [f"kwargs[{name!r}]" for name in given[1]]
        found.replaced = [n for n, h, whole in zip(names, held, _wholes(given), strict=True) if h != _parts(whole)]
        owners = {**_of_module(module), **{memory(leaf): path for path, leaf in input_leaves(given)}}
        outputs = [(f"output{path}", leaf) for path, leaf in named_leaves(output) if isinstance(leaf, torch.Tensor)]
        found.shared = {path: owners[memory(leaf)] for path, leaf in outputs if owners.get(memory(leaf))}
        if second is not None:
            found.overwritten = list(_overwritten(module, outputs, second))
    return found


def answer_sharing(module: nn.Module, call: Call) -> Any:
    """The answer to copies of the inputs that share memory where the inputs do.

    Raises what ``module`` or ``copy.deepcopy`` of the inputs raises.
    """
    with preserved(module), torch.no_grad():
        module.eval()
        args, kwargs = copy.deepcopy((tuple(call[0]), dict(call[1])))
        return distinct(module(*args, **kwargs))


def input_leaves(call: Call) -> list[tuple[str, Any]]:
    """Path and leaf of every input, as ``args[0]['ids']`` and ``kwargs['mask']``."""
    return [
        (f"{whole}{path}", leaf)
        for whole, given in (("args", tuple(call[0])), ("kwargs", dict(call[1])))
        for path, leaf in named_leaves(given)
    ]


def _overwritten(module: nn.Module, outputs: list[tuple[str, torch.Tensor]], second: Call) -> Iterator[str]:
    held = [leaf.clone() for _, leaf in outputs]
    args, kwargs = distinct((tuple(second[0]), dict(second[1])))
    try:
        module(*args, **kwargs)
    except Exception:
        return
    for (path, leaf), before in zip(outputs, held, strict=True):
        if not equal_bits(leaf, before):
            yield path


def _wholes(call: Call) -> list[Any]:
    return [*call[0], *call[1].values()]


def _parts(whole: Any) -> tuple[str, list[int]]:
    leaves, spec = flatten(whole)
    return repr(spec), [id(leaf) for leaf in leaves]


def _of_module(module: nn.Module) -> dict[int, str]:
    """Names of the tensors that the module keeps, by memory; parameters and buffers before plain attributes."""
    tensors: list[tuple[str, Any]] = [*module.named_parameters(), *module.named_buffers()]
    packages = users_packages(module)
    for prefix, part in module.named_modules():
        for name, value in plain_attributes(part).items():
            tensors += [(f"{prefix}.{name}{place}".removeprefix("."), kept) for place, kept in inside(value, packages)]
    return {memory(value): name for name, value in reversed(tensors)}


def memory(leaf: Any) -> int:
    """Return the address of the storage; 0 for what has none."""
    return storage_address(leaf) if isinstance(leaf, torch.Tensor) else 0
