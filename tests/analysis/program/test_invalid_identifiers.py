"""Names that torch cannot write as Python, told from odd ones that it can."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.program.invalid_identifiers import invalid_identifiers

X = torch.ones(2, 4)


class Named(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.layers = name, nn.ModuleDict({name: nn.Linear(4, 4)})

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers[self.name](x)
        return out


@pytest.mark.parametrize("name", ["lambda", "class", 'a"b'])
def test_told_where_the_program_cannot_run(name: str) -> None:
    """As the model's fault, with the name, once."""
    readiness = export_ready_check(Named(name).eval(), (X,))
    assert [(finding.code, finding.where) for finding in readiness.errors] == [("ER125", name)]
    assert readiness.outcome == "failed"


@pytest.mark.parametrize("name", ["relu", "ä", "conv-1", "a b", "match"])
def test_not_told_where_it_can(name: str) -> None:
    program = torch.export.export(Named(name).eval(), (X,))
    try:
        program.module()(X)
    except SyntaxError:
        assert invalid_identifiers(program) == [name]
    else:
        assert invalid_identifiers(program) == []
