"""dynamic_shapes="auto": dynamic dimensions are found and written as source; lost ones are reported with their line."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.resizable_dims import resizable_dims
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.readiness import Readiness


def found(module: nn.Module, *inputs: Any) -> Readiness:
    return export_ready_check(module.eval(), inputs, dynamic_shapes="auto", stages=["shapes"])


def written(readiness: Readiness) -> str:
    (fix,) = [finding.fix for finding in readiness.findings if finding.code == "ER603"]
    return fix.removeprefix("Pass `dynamic_shapes=").removesuffix("`.")


def exported(module: nn.Module, text: str, *inputs: Any) -> torch.export.ExportedProgram:
    return torch.export.export(module, inputs, dynamic_shapes=eval(text, {"Dim": Dim}))


class Sequence(nn.Module):
    def forward(self, x: Tensor, masks: list[Tensor]) -> Tensor:
        return x * masks[0][:, :, None]


class Pairs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y.view(-1, 2).sum(1)


class Fixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * [0.0, 0.5, 0.25, 1.0, 2.0, 4.0, 8.0][x.shape[0]]


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] <= 8:
            return x * 2
        return x * 3


def test_what_the_module_accepts() -> None:
    """Alone, together, and as multiples; dimensions that the module refuses are omitted."""
    assert resizable_dims(nn.Linear(4, 4), ((torch.randn(3, 4),), {})) == [[(0, 0)]]
    assert resizable_dims(Sequence(), ((torch.randn(3, 5, 4), [torch.randn(3, 5)]), {})) == [
        [(0, 2)], [(0, 0), (1, 0)], [(0, 1), (1, 1)],
    ]  # fmt: skip
    assert resizable_dims(Pairs(), ((torch.randn(3), torch.randn(6)), {})) == [[(0, 0), (1, 0)]]


@pytest.mark.parametrize(
    ("module", "inputs", "other"),
    [
        (Sequence(), (torch.randn(3, 5, 4), [torch.randn(3, 5)]), (torch.randn(2, 7, 9), [torch.randn(2, 7)])),
        (Pairs(), (torch.randn(3), torch.randn(6)), (torch.randn(5), torch.randn(10))),
        (nn.Conv2d(3, 4, 3), (torch.randn(2, 3, 8, 9),), (torch.randn(1, 3, 12, 6),)),
    ],
    ids=["nested", "multiples", "image"],
)
def test_the_expression_can_be_pasted(module: nn.Module, inputs: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """torch.export accepts it as it is written, and the program runs at other sizes."""
    readiness = found(module, *inputs)
    assert readiness.ready, readiness
    program = exported(module.eval(), written(readiness), *inputs)
    torch.testing.assert_close(program.module()(*other), module(*other))


def test_relations_are_written() -> None:
    """Equal sizes share a Dim, a multiple is written as one."""
    text = written(found(Pairs(), torch.randn(3), torch.randn(6)))
    assert re.fullmatch(r'{"x": {0: (Dim\("batch", min=[12]\))}, "y": {0: 2\*\1}}', text)


@pytest.mark.parametrize("module", [Fixed(), Branch()], ids=["list index", "branch"])
def test_lost_sizes_are_reported_with_their_line(module: nn.Module) -> None:
    """The line that reads the size; a warning, as the dimension was not declared."""
    readiness = found(module, torch.randn(4, 3))
    (lost,) = [finding for finding in readiness.findings if finding.code == "ER604"]
    lines, first = inspect.getsourcelines(type(module).forward)
    assert (lost.severity, lost.where, lost.file) == ("warning", "x.shape[0]", __file__)
    assert "x.shape[0]" in lines[lost.line - first]
    assert readiness.ready


def test_an_example_of_size_one() -> None:
    """It becomes a constant, which is reported."""
    readiness = found(nn.Linear(4, 4), torch.randn(1, 4))
    assert [(finding.code, finding.where) for finding in readiness.findings if finding.code == "ER604"] == [
        ("ER604", "input.shape[0]")
    ]


def test_another_word() -> None:
    with pytest.raises(CaseError, match='"auto"'):
        export_ready_check(nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes="all")
