"""What the source tells besides the export; it never decides."""

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


def test_the_other_lines_of_a_failed_export_are_told() -> None:
    """The export stops at the first branch; the source has the second too. It is no error of its own."""
    readiness = export_ready_check(Branches().eval(), (X,), stages=["export"])
    told = [finding for finding in readiness.findings if finding.code == "ER130"]
    first = Branches.forward.__code__.co_firstlineno
    assert [(f.severity, f.file, f.line - first) for f in told] == [("note", __file__, 3)]
    assert "the export failed" in told[0].message
    assert [finding.code for finding in readiness.errors] == ["ER401"]


def test_a_branch_on_sizes_is_not_told() -> None:
    readiness = export_ready_check(Plain().eval(), (X,), stages=["export"])
    assert readiness.ready
    assert readiness.findings == ()


def test_a_fault_of_the_analysis_is_told_and_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("pytest_exportready.stages._source_lines.suspects", broken)
    readiness = export_ready_check(Plain().eval(), (X,), stages=["export"])
    assert readiness.ready
    assert ["too deep" in finding.message for finding in readiness.findings] == [True]
