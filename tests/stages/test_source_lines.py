"""Lines found in the source: they are notes, and decide nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check

X = torch.ones(4, 3)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x + 1
        if x.max() > 2:
            x = x * 2
        return x


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[0] > 2 else -x


def test_the_other_lines_of_a_failed_export() -> None:
    """The export stops at the first branch; the second is a note."""
    readiness = export_ready_check(Branches().eval(), (X,), stages=["export"])
    notes = [finding for finding in readiness.findings if finding.code == "ER130"]
    first = Branches.forward.__code__.co_firstlineno
    assert [(f.severity, f.file, f.line - first) for f in notes] == [("note", __file__, 3)]
    assert "The export failed" in notes[0].message
    assert [finding.code for finding in readiness.errors] == ["ER401"]


def test_a_branch_on_sizes_is_not_reported() -> None:
    readiness = export_ready_check(Plain().eval(), (X,), stages=["export"])
    assert readiness.ready
    assert readiness.findings == ()


def test_a_fault_of_the_analysis_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("pytest_exportready.stages._source_lines.suspects", broken)
    readiness = export_ready_check(Plain().eval(), (X,), stages=["export"])
    assert readiness.ready
    assert [(f.severity, "too deep" in f.torch_says) for f in readiness.findings] == [("note", True)]
