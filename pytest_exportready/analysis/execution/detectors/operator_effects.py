"""Observe what custom operators do while something runs, compared with what their schemas declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import distinct, flatten, tensors
from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.module.tensor_values import storage_address
from pytest_exportready.analysis.program.nodes import is_custom
from pytest_exportready.analysis.torch_internals.tensors import each_operator


@dataclass
class Observed:
    """One operator, the arguments of its first call, and what any of its calls did."""

    operator: Any
    args: tuple[Any, ...]  # as they were before the call
    kwargs: dict[str, Any]
    written: dict[str, None] = field(default_factory=dict)  # arguments that changed; not declared by the schema
    aliased: dict[str, None] = field(default_factory=dict)  # arguments whose memory a result shares; not declared
    differentiated: bool = False  # an argument required a gradient, and gradients were recorded

    @property
    def name(self) -> str:
        return operator_name(self.operator)


def operator_name(operator: Any) -> str:
    """Return ``mylib::op``, with its overload unless that is the default one."""
    overload = "" if operator._overloadname == "default" else f".{operator._overloadname}"
    return f"{operator._schema.name}{overload}"


def observe(work: Callable[[], Any], found: dict[Any, Observed]) -> None:
    """Run ``work`` and add each custom operator that it calls to ``found``, also those before ``work`` raises."""

    def handle(operator: Any, args: Any, kwargs: Any) -> Any:
        if not is_custom(operator):
            return operator(*args, **kwargs)
        before = distinct((tuple(args), dict(kwargs)))
        result = operator(*args, **kwargs)
        seen = found.setdefault(operator, Observed(operator, *before))
        outputs = {storage_address(leaf) for leaf in flatten(result)[0] if isinstance(leaf, torch.Tensor)} - {0}
        for name, now, then in _undeclared(operator, (args, kwargs), before):
            if not equal_bits(now, then):
                seen.written[name] = None
            elif storage_address(now) in outputs:
                seen.aliased[name] = None
        needs_grad = any(tensor.requires_grad for tensor in tensors((args, kwargs)))
        seen.differentiated |= torch.is_grad_enabled() and needs_grad
        return result

    with each_operator(handle):
        work()


def _undeclared(operator: Any, now: Any, then: Any) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yield name, tensor and earlier copy of every argument that the schema declares neither mutated nor aliased."""
    for position, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is None:
            current, earlier = (
                args[position] if position < len(args) else kwargs.get(argument.name) for args, kwargs in (now, then)
            )
            for tensor, copy in zip(flatten(current)[0], flatten(earlier)[0], strict=True):
                if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                    yield argument.name, tensor, copy
