from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.state_dict_names import inspect


def rename(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state[f"{prefix}w"] = state.pop(f"{prefix}weight")


def drop(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    del state[f"{prefix}weight"]


def to_half(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state[f"{prefix}weight"] = state[f"{prefix}weight"].half()


def judge(hook: Any) -> list[Finding]:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.register_buffer("mask", torch.ones(2), persistent=False)
    model[0].register_state_dict_post_hook(hook)
    return list(inspect(Subject(model)))


def test_renaming_names_the_hook() -> None:
    (finding,) = judge(rename)
    assert (finding.severity, finding.where, finding.file) == ("error", "0", __file__)
    assert "rename" in finding.message
    assert "0.w" in finding.message


def test_leaving_out_is_only_mentioned() -> None:
    assert [f.severity for f in judge(drop)] == ["note"]


def test_names_that_stay_are_clean() -> None:
    assert judge(to_half) == []
    assert list(inspect(Subject(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))))) == []
