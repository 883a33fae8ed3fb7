"""Kinds of tensors, and modes that intercept operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from pytest_exportready.analysis.torch_internals._loaded import loaded_class


def is_fake(tensor: torch.Tensor) -> bool:
    """Return whether it is a FakeTensor, with shape and dtype but no values. There is no public predicate."""
    fake = loaded_class("torch._subclasses.fake_tensor", "FakeTensor")
    return fake is not None and isinstance(tensor, fake)


def is_dtensor(tensor: torch.Tensor) -> bool:
    """Return whether it is a DTensor, without the slow import of ``torch.distributed.tensor``."""
    distributed = loaded_class("torch.distributed.tensor", "DTensor")
    return distributed is not None and isinstance(tensor, distributed)


def each_operator(handle: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Return a mode in which ``handle(operator, args, kwargs)`` runs instead of every ATen operator.

    Its documented base class is in a private module.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Each(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handle(operator, args, kwargs or {})

    mode: AbstractContextManager[Any] = Each()  # type: ignore[no-untyped-call]
    return mode


def fake_mode() -> tuple[AbstractContextManager[Any], Callable[[torch.Tensor], torch.Tensor]]:
    """Return a mode in which operators compute shapes and dtypes without data, and a function that converts tensors.

    The class is private. Meta tensors do not keep the device, and cannot be combined with tensors created on the CPU.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return mode, lambda tensor: mode.from_tensor(tensor, static_shapes=True)


def function_of_node(node: Any) -> type | None:
    """Return the ``torch.autograd.Function`` of a node of the backward graph; None for the node of an operator.

    There is no public attribute for it.
    """
    function = getattr(type(node), "_forward_cls", None)
    return function if isinstance(function, type) else None
