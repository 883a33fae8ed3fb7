"""Compute the gradients of one scalar with respect to inputs and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.pytree import distinct, flatten, named_leaves
from pytest_exportready.analysis.torch_internals.tensors import function_of_node

Loss = Callable[[Any], Any]


@dataclass(frozen=True)
class Gradients:
    """The gradients of one backward."""

    by_name: dict[str, torch.Tensor]  # of parameters and floating-point inputs (``input[0]``) that get one
    functions: tuple[tuple[str, str, int], ...]  # custom autograd.Functions in the graph, with file and line


def eager_gradients(reference: EagerReference, call: Call, loss: Loss | None) -> Gradients:
    """Return the gradients of the trained module in eval mode, as ``gradients`` does."""
    with reference.in_eval_mode():
        return gradients(reference.module, dict(reference.module.named_parameters()), call, loss)


def gradients(module: nn.Module, parameters: Mapping[str, torch.Tensor], call: Call, loss: Loss | None) -> Gradients:
    """Return the gradients of ``loss(output)``.

    The default loss is the sum of all floating-point outputs, each weighted at random (seed 0). Parameters that do
    not require a gradient get none.

    Raises:
        Exception: whatever forward, ``loss`` or backward raises.
    """
    with torch.enable_grad():
        args, kwargs = distinct((tuple(call[0]), dict(call[1])))
        inputs = {f"input{path}": leaf for path, leaf in named_leaves((args, kwargs)) if _differentiable(leaf)}
        for leaf in inputs.values():
            leaf.requires_grad_(True)
        output = module(*args, **kwargs)
        total = _weighted(output) if loss is None else loss(output)
        wanted = {**{name: p for name, p in parameters.items() if p.requires_grad}, **inputs}
        found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    given = {name: grad.detach() for name, grad in zip(wanted, found, strict=True) if grad is not None}
    return Gradients(given, tuple(_functions(total)))


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _weighted(output: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    terms = []
    for leaf in flatten(output)[0]:
        if _differentiable(leaf) and leaf.requires_grad:
            weights = torch.randn(leaf.shape, generator=generator).to(leaf.device)
            values = torch.view_as_real(leaf).sum(-1) if leaf.is_complex() else leaf
            terms.append((values.to(torch.promote_types(values.dtype, torch.float32)) * weights).sum())
    if not terms:
        raise ValueError("no floating-point output depends on a parameter or an input")
    return torch.stack([term.to(terms[0].device, terms[0].dtype) for term in terms]).sum()


def _functions(total: torch.Tensor) -> Iterator[tuple[str, str, int]]:
    seen: set[Any] = set()
    classes: dict[type, None] = {}
    pending = [total.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        function = function_of_node(node)
        if function is not None and not function.__module__.startswith("torch."):
            classes[function] = None
        pending += [following for following, _ in node.next_functions]
    for function in classes:
        try:
            file, line = inspect.getsourcefile(function) or "", inspect.getsourcelines(function)[1]
        except (OSError, TypeError):
            file, line = "", 0
        yield function.__name__, file, line
