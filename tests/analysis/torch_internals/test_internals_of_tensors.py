"""What is private to torch about tensors: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pytest_exportready.analysis.torch_internals.tensors import (
    each_operator,
    fake_mode,
    function_of_node,
    is_dtensor,
    is_fake,
)


def test_is_fake_and_is_dtensor() -> None:
    with FakeTensorMode():
        assert is_fake(torch.ones(1))
    assert not is_fake(torch.ones(1))
    assert not is_dtensor(torch.ones(1))


def test_each_operator() -> None:
    seen: list[str] = []

    def run(operator: Any, args: Any, kwargs: Any) -> Any:
        seen.append(operator.name())
        return operator(*args, **kwargs)

    with each_operator(run):
        torch.ones(2) + 1
    assert seen == ["aten::ones", "aten::add.Tensor"]


def test_function_of_node() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return 2 * grad

    x = torch.ones(2, requires_grad=True)
    assert function_of_node(Twice.apply(x).grad_fn) is Twice  # 2.13 to 2.15
    assert function_of_node((2 * x).grad_fn) is None


def test_fake_mode() -> None:
    """2.13 to 2.15 have it."""
    mode, fake = fake_mode()
    with mode:
        made = fake(torch.ones(2, 3)) @ torch.ones(3, 5)
    assert is_fake(made)
    assert made.shape == (2, 5)
