"""Stage operators: custom operators that do something that their schemas do not declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import custom_operators as ops
import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness

OPS = torch.ops.exportready_ops


class Part(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(3, 3), function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.linear(x))


def judged(function: Callable[[Tensor], Any], *stages: str, **knowledge: Any) -> Readiness:
    torch.manual_seed(0)
    model = nn.Sequential(nn.ReLU(), Part(function)).eval()
    return export_ready_check(model, (torch.randn(4, 3),), stages=stages or ["operators"], **knowledge)


def found(function: Callable[[Tensor], Any], *stages: str, **knowledge: Any) -> list[Finding]:
    return [f for f in judged(function, *stages, **knowledge).findings if f.severity != "note"]


def writes(x: Tensor) -> Tensor:
    total = ops.secretly_writes(x, 3.0)
    return x + total


def test_an_undeclared_write() -> None:
    """The finding names operator, argument, module and line of forward; the fix has the registration."""
    (finding,) = found(writes)
    assert (finding.code, finding.severity) == ("ER161", "error")
    assert finding.where == "exportready_ops::secretly_writes in 1"
    assert (finding.file, finding.line) == (__file__, Part.forward.__code__.co_firstlineno + 1)
    assert "its argument x" in finding.message
    assert '@torch.library.custom_op("exportready_ops::secretly_writes", mutates_args=("x",))' in finding.fix


def test_undeclared_aliasing() -> None:
    (finding,) = found(lambda x: OPS.same_memory(x) + 1)
    assert (finding.code, finding.severity) == ("ER161", "error")
    assert "memory of its argument x" in finding.message
    assert "clone()" in finding.fix


def test_other_strides_in_the_fake_kernel_are_a_warning() -> None:
    """The program is right; a compiler would be wrong."""
    readiness = judged(lambda x: ops.turned(x) + 1)
    assert readiness.ready
    (finding,) = [f for f in readiness.findings if f.code == "ER162"]
    assert finding.severity == "warning"
    assert "exportready_ops::turned" in finding.where
    assert "register_fake" in finding.fix


def opened(x: Tensor) -> Tensor:
    ops.openly_writes(x, 2.0)
    return x


@pytest.mark.parametrize(
    "function",
    [
        opened,
        lambda x: ops.doubled(x),
        lambda x: ops.tripled(x),
        lambda x: OPS.in_kernel(x),
        lambda x: OPS.a_view(x) * 2,
        lambda x: ops.mixed([x, x * 2], None, scale=2.0)[0] + ops.mixed([x], x)[0],
    ],
)
def test_operators_that_keep_their_schema(function: Any) -> None:
    assert found(function) == []


def test_a_gradient_that_a_compiler_loses() -> None:
    """What autograd records inside a kernel: an error in a program that will be trained."""
    (finding,) = found(lambda x: OPS.in_kernel(x), trainable=True)
    assert (finding.code, finding.severity) == ("ER163", "error")
    assert 'register_autograd("exportready_ops::in_kernel"' in finding.fix
    assert found(lambda x: ops.tripled(x), trainable=True) == []


def test_an_operator_without_backward_is_reported_by_the_gradients() -> None:
    (finding,) = found(lambda x: ops.doubled(x), "gradients", "operators", trainable=True)
    assert (finding.code, finding.where) == ("ER512", "exportready_ops::doubled")
    assert finding.file == __file__
    assert "register_autograd" in finding.fix
    assert found(lambda x: ops.doubled(x), "gradients", "operators") == []


def test_a_program_without_custom_operators_is_not_run() -> None:
    readiness = judged(lambda x: x * 2)
    stage = next(stage for stage in readiness.stages if stage.name == "operators")
    assert (stage.outcome, stage.facts) == ("passed", {"operators": 0})
