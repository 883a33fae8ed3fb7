"""A copy of a weight is known by its values, in whatever form it lies; tables and older snapshots are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.analysis.program.weight_copies import copied_weights
from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.no_weight_copies import inspect_program


class Keeps(nn.Module):
    """Reads ``kept``, made of the weight ``w``, and ``w`` itself by the factor ``direct``."""

    def __init__(self, keep: Callable[[nn.Parameter], Tensor], direct: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1.0, 1.0, 12).reshape(3, 4) ** 3)
        self.box = [keep(self.w)]
        self.direct = direct

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.box[0].float().sum()
        return y + self.w * self.direct if self.direct else y


def program_of(model: nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(model.eval(), (torch.ones(3, 4),))


def found(model: nn.Module) -> list[Finding]:
    return list(inspect_program(program_of(model), Subject(model)))


FORMS = {
    "as it is": (lambda w: w.detach().clone(), ""),
    "transposed": (lambda w: w.detach().t().clone(), ".t()"),
    "transposed lazily": (lambda w: w.detach().clone().t(), ".t()"),
    "flat": (lambda w: w.detach().flatten().clone(), ".view(12)"),
    "half": (lambda w: w.detach().half(), ""),
    "memory of its own, view": (lambda w: w.data.view(4, 3), ".view(4, 3)"),
}
OTHERS = {
    "negated": lambda w: -w.detach(),
    "older": lambda w: w.detach() + 0.01,
    "one value off": lambda w: torch.cat([w.detach().flatten()[:-1], torch.zeros(1)]).view(3, 4),
    "table": lambda w: torch.arange(12.0).view(3, 4).sin(),
    "mask": lambda w: torch.ones(3, 4),
    "other size": lambda w: w.detach()[:2].clone(),
    "integers": lambda w: torch.arange(12).view(3, 4),
}


@pytest.mark.parametrize(("keep", "form"), FORMS.values(), ids=FORMS)
def test_copy_in_any_form(keep: Callable[[nn.Parameter], Tensor], form: str) -> None:
    (copy,) = copied_weights(program_of(Keeps(keep)))
    assert (copy.weight, copy.form) == ("w", form)


@pytest.mark.parametrize("keep", OTHERS.values(), ids=OTHERS)
def test_no_copy(keep: Callable[[nn.Parameter], Tensor]) -> None:
    assert list(copied_weights(program_of(Keeps(keep, direct=1.0)))) == []


def test_few_values_are_equal_by_chance() -> None:
    model = Keeps(lambda w: torch.ones(3, 4), direct=1.0)
    nn.init.ones_(model.w)
    assert list(copied_weights(program_of(model))) == []


def test_a_large_copy_that_is_not_contiguous_is_sampled_by_rows() -> None:
    model = Keeps(lambda w: torch.zeros(3, 4), direct=1.0)
    model.w = nn.Parameter(torch.arange(2.0**14).reshape(2**7, 2**7))
    model.box = [model.w.detach().t().clone().t()]
    assert [copy.form for copy in copied_weights(torch.export.export(model, (torch.ones(2**7, 2**7),)))] == [""]


def test_a_copy_that_stands_in_is_an_error_at_its_place() -> None:
    (finding,) = found(Keeps(lambda w: w.detach().t().clone()))
    assert (finding.severity, finding.where) == ("error", "box[0]")
    assert "Read `w.t()`" in finding.fix


def test_a_copy_beside_the_weight_is_a_warning() -> None:
    assert [f.severity for f in found(Keeps(lambda w: w.detach().clone(), direct=1.0))] == ["warning"]


def test_frozen_on_purpose_counts_less() -> None:
    for direct, told in ((0.0, ["warning"]), (1.0, [])):
        model = Keeps(lambda w: w.detach().clone(), direct).requires_grad_(False)
        assert [f.severity for f in found(model)] == told
