"""Registrations that are written for the user: Python that runs, and fits the operator."""

from __future__ import annotations

import custom_operators as ops  # noqa: F401
import pytest
import torch

from pytest_exportready.analysis.source.operator_registration import autograd, custom_op, fake_kernel, writing

OPS = torch.ops.exportready_ops


def test_a_custom_op_from_a_call_can_be_exported() -> None:
    """The text, with a body in place of the dots, registers an operator with a fake kernel that torch accepts."""
    text = custom_op("clipped", {"x": torch.ones(2), "limit": 0.5, "steps": 3, "on": True, "sizes": [1, 2]})
    assert "def clipped(x: torch.Tensor, limit: float, steps: int, on: bool, sizes: list[int]) -> torch.Tensor" in text
    text = text.replace("mylib::", "exportready_written::").replace(
        "...  # its code, unchanged", "return x.clamp(max=limit)"
    )
    names = {"torch": torch}
    exec(text, names)
    operator = torch.ops.exportready_written.clipped.default
    torch.library.opcheck(operator, (torch.ones(2), 0.5, 3, True, [1]), test_utils=("test_schema", "test_faketensor"))


def test_a_fake_kernel_has_the_arguments_and_results_of_the_schema() -> None:
    text = fake_kernel(OPS.without_fake.default)
    assert "def _(x, k, *, largest): return (torch.empty_like(x), torch.empty_like(x))" in text
    assert "[torch.empty_like(x) for x in xs]" in fake_kernel(OPS.mixed.default)
    assert "return None" in fake_kernel(OPS.openly_writes.default)
    for operator in (OPS.without_fake, OPS.mixed, OPS.openly_writes, OPS.doubled):
        compile(fake_kernel(operator.default), "text", "exec")


def test_autograd_returns_one_gradient_for_each_argument() -> None:
    text = autograd(OPS.secretly_writes.default)
    assert "def backward(ctx, grad): return grad_x, None" in text
    assert "def backward(ctx, grad, grad1):" in autograd(OPS.without_fake.default)
    compile(text, "text", "exec")


@pytest.mark.parametrize(("names", "expected"), [(["x"], '("x",)'), (["x", "y"], '("x", "y")')])
def test_arguments_that_are_written(names: list[str], expected: str) -> None:
    assert f"mutates_args={expected})" in writing(OPS.secretly_writes.default, names)
