"""facts: what stages measure has the names that reports look for."""

from __future__ import annotations

import torch
from torch import nn

from pytest_exportready import ExportCase
from pytest_exportready.case import facts
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.judge.judge import judge

NAMES = {value for name, value in vars(facts).items() if name.isupper() and isinstance(value, str)}


def test_every_fact_of_a_stage_has_a_name_there() -> None:
    """Budget, columns and the comparison of nights find it by that name."""
    options = CaseOptions(dynamic_shapes="auto", lower=("decompose",))
    model, x = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval(), torch.randn(4, 3)
    case = ExportCase(model, (x,), golden=model(x).detach(), target_device="cuda", trainable=True)
    readiness = judge(case, options, name="case")
    measured = {stage.name: set(stage.facts) for stage in readiness.stages if stage.name != "train"}
    for name in ("eager", "export", "parity", "reload", "shapes", "gradients", "decompose"):
        assert measured[name], f"{name} measured nothing"
    assert set().union(*measured.values()) <= NAMES
    assert measured["export"] == {facts.SECONDS, facts.NODES}
    assert facts.BYTES in measured["reload"]
    assert facts.LARGEST in measured["parity"]
