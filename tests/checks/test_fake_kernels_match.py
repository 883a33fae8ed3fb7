"""A fake kernel that declares another dtype or shape than the operator returns is reported with operator and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.fake_kernels_match import inspect_program

X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)


@pytest.fixture
def operator(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """``operator(real, fake)`` registers an operator for this test only."""
    library = torch.library.Library("fake_kernels_match", "FRAGMENT")
    name = "op_" + "".join(c if c.isalnum() else "_" for c in request.node.name)

    def define(real: Callable[[Tensor], Tensor], fake: Callable[[Tensor], Tensor]) -> Any:
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, real, "CompositeExplicitAutograd")
        torch.library.register_fake(f"fake_kernels_match::{name}", fake, lib=library)
        return getattr(torch.ops.fake_kernels_match, name)

    yield define
    library._destroy()


class Net(nn.Module):
    def __init__(self, operator: Callable[[Tensor], Tensor], region: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.operator = operator
        self.region = region

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.region):
            y = self.operator(self.linear(x).float())
        return y.float() + 1


OPERATOR_LINE = Net.forward.__code__.co_firstlineno + 2


def found(model: nn.Module, shapes: Any = None, strict: bool = False) -> list[Finding]:
    program = torch.export.export(model.eval(), (X,), dynamic_shapes=shapes, strict=strict)
    return list(inspect_program(program, Subject(model, (X,))))


WRONG = {
    "dtype": (lambda x: x.half(), torch.empty_like, "returned torch.float16, but the program records torch.float32."),
    "rank": (lambda x: x.clone()[None], torch.empty_like, "shape [1, 3, 4], but the program records [3, 4]."),
    "size": (
        lambda x: torch.cat([x, x], 1),
        torch.empty_like,
        "shape [3, 8], but the program records [3, 4].",
    ),
}


@pytest.mark.parametrize("region", [False, True])
@pytest.mark.parametrize(("real", "fake", "message"), WRONG.values(), ids=WRONG)
def test_wrong_kernel_is_reported_with_its_place(
    operator: Callable[..., Any], real: Any, fake: Any, message: str, region: bool
) -> None:
    (finding,) = found(Net(operator(real, fake), region))
    assert message in finding.message
    assert (finding.severity, finding.file, finding.line) == ("error", __file__, OPERATOR_LINE)
    assert finding.where.startswith("fake_kernels_match::op_")
    assert "register_fake" in finding.fix


def test_a_dimension_that_is_a_symbol_is_compared_by_the_others(operator: Callable[..., Any]) -> None:
    batch = {"x": {0: torch.export.Dim.DYNAMIC}}
    (finding,) = found(Net(operator(lambda x: torch.cat([x, x], 1), torch.empty_like)), batch)
    assert "returned shape [3, 8], but the program records [?, 4]." in finding.message


def test_only_the_first_wrong_kernel_is_reported(operator: Callable[..., Any]) -> None:
    wrong = operator(lambda x: x.half(), torch.empty_like)
    assert len(found(Net(lambda x: wrong(wrong(x) * 2) * 2))) == 1


HEALTHY = {
    "half": (lambda x: x.half(), lambda x: torch.empty_like(x, dtype=torch.float16)),
    "other strides": (lambda x: x.mT.contiguous().mT, torch.empty_like),
    "padded": (lambda x: F.pad(x, (0, 1)), lambda x: x.new_empty(x.shape[0], x.shape[1] + 1)),
}


@pytest.mark.parametrize("shapes", [None, {"x": {0: torch.export.Dim.DYNAMIC}}], ids=["static", "dynamic"])
@pytest.mark.parametrize(("real", "fake"), HEALTHY.values(), ids=HEALTHY)
def test_right_kernel_is_not_reported(operator: Callable[..., Any], real: Any, fake: Any, shapes: Any) -> None:
    assert found(Net(operator(real, fake), region=True), shapes) == []


def test_strict_export_records_autocast_regions_without_their_effect() -> None:
    class Region(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return x @ x.mT

    (finding,) = found(Region(), strict=True)
    assert finding.severity == "warning"  # the numbers may be right all the same
    assert finding.message == "`aten::matmul` returned torch.bfloat16, but the program records torch.float32."
    assert "strict=False" in finding.fix
    assert found(Region(), strict=False) == []


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")
def test_a_program_without_custom_operators_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningProgram, "watched", lambda *_: pytest.fail("was run"))
    assert found(nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 2))) == []


def test_one_cause_one_finding(operator: Callable[..., Any]) -> None:
    """A wrong dtype also stops the program on its own example inputs; parity does not report it again."""
    readiness = export_ready_check(Net(operator(lambda x: x.half(), torch.empty_like)), (X,))
    assert [finding.code for finding in readiness.errors] == ["ER140"]
