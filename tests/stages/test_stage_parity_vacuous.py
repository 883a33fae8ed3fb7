"""Comparisons that cannot fail under the given weights, and outputs that float64 decides on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from test_stage_parity import STAGES, X, check, codes, parity, traced
from torch import Tensor, nn

from pytest_exportready import export_ready_check


def test_zeros_on_one_input_only() -> None:
    """Class 0, or a detector that finds nothing, is a valid output: it proves nothing only if all outputs are zero."""
    negative = -X.abs() - 1

    def fires(x: Tensor) -> Tensor:
        return (x > 0).any(1)

    assert codes(check(fires, negative)) == ["ER503"]
    assert check(fires, negative, more_inputs=[((X.abs() + 1,), {})]).ready


class ZeroHead(nn.Module):
    """As vision transformers are initialized: the output is zero for every input."""

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.inner(x))
        return y


def test_a_head_of_zeros_is_compared_with_other_weights() -> None:
    readiness = export_ready_check(ZeroHead(torch.tanh).eval(), (X,), stages=STAGES)
    assert readiness.ready
    (finding,) = [f for f in readiness.findings if f.code == "ER503"]
    assert finding.severity == "warning"
    assert "With other weights" in finding.message


def test_a_wrong_program_behind_a_head_of_zeros() -> None:
    model = ZeroHead(traced(torch.tanh, torch.sigmoid)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert codes(export_ready_check(model, (X,), stages=STAGES)) == ["ER503"]
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_signal_that_vanishes_in_untrained_norms() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU())]
    for layer in layers[::3]:
        nn.init.normal_(layer.weight, std=1e-2)
    model = nn.Sequential(nn.Linear(3, 16), *layers, nn.Linear(16, 2)).eval()
    readiness = export_ready_check(model, (X,), stages=STAGES)
    assert not [f for f in readiness.errors if f.code == "ER503"], str(readiness)
    assert [f.severity for f in readiness.findings if f.code == "ER503"] == ["warning"]


def _sum_of_cancelling(x: Tensor, order: Tensor) -> Tensor:
    """Large terms that cancel: float32 keeps few digits, other ones in another order."""
    terms = torch.cat([x * 1e4, torch.sin(x * 3), -x * 1e4 + 1e-3], 0)[order]
    total = torch.zeros(3, dtype=x.dtype)
    for term in terms:
        total = total + term
    return total


def test_a_program_as_close_to_float64_as_the_module() -> None:
    order = torch.arange(12)
    right = traced(lambda x: _sum_of_cancelling(x, order), lambda x: _sum_of_cancelling(x, order.flip(0)))
    readiness = check(right, X * 7)
    assert codes(readiness) == []
    facts = parity(readiness).facts
    assert facts["judged_by_float64"] >= 1
    assert facts["decibel"] < 100
    assert 0.9 < facts["cosine"] <= 1.0


def test_a_program_further_from_float64_than_the_module() -> None:
    order = torch.arange(12)
    wrong = traced(lambda x: _sum_of_cancelling(x, order), lambda x: _sum_of_cancelling(x, order) * 1.03)
    assert codes(check(wrong, X * 7)) == ["ER501"]


def test_the_tolerance_of_the_user_is_not_widened() -> None:
    order = torch.arange(12)
    right = traced(lambda x: _sum_of_cancelling(x, order), lambda x: _sum_of_cancelling(x, order.flip(0)))
    assert codes(check(right, X * 7, tolerance={"rtol": 1e-7, "atol": 0.0})) == ["ER501"]
