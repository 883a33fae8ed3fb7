"""What kind of tensor this is, and what runs on tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from pytest_exportready.analysis.torch_internals._loaded import loaded_class


def is_fake(tensor: torch.Tensor) -> bool:
    """True for a FakeTensor: shape and dtype without values, as a trace leaves behind.

    There is no public class or predicate.
    """
    fake = loaded_class("torch._subclasses.fake_tensor", "FakeTensor")
    return fake is not None and isinstance(tensor, fake)


def is_dtensor(tensor: torch.Tensor) -> bool:
    """True for a DTensor, without importing ``torch.distributed.tensor``, which takes long and may be
    absent.
    """
    distributed = loaded_class("torch.distributed.tensor", "DTensor")
    return distributed is not None and isinstance(tensor, distributed)


def each_operator(handle: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Within the block ``handle(operator, args, kwargs)`` runs in place of every ATen operator.

    The class to derive such a mode from is documented, but lives in a private module.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Each(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handle(operator, args, kwargs or {})

    mode: AbstractContextManager[Any] = Each()  # type: ignore[no-untyped-call]
    return mode


def fake_mode() -> tuple[AbstractContextManager[Any], Callable[[torch.Tensor], torch.Tensor]]:
    """A mode in which operators compute shapes and dtypes without data, and what makes a tensor one of its own.

    The class has no public name; meta tensors forget the device, and what is created on the CPU does not fit them.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    return mode, lambda tensor: mode.from_tensor(tensor, static_shapes=True)


def function_of_node(node: Any) -> type | None:
    """The ``torch.autograd.Function`` that made a node of the backward graph; None for an operator's node.

    No public attribute of a node has its Function.
    """
    function = getattr(type(node), "_forward_cls", None)
    return function if isinstance(function, type) else None
