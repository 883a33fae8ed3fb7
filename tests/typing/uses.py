"""Uses of the public types, which type checkers read. Each ``type: ignore`` marks a use that must be an error."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

import pytest_exportready
from pytest_exportready import (
    CannotTrain,
    ExportCase,
    Finding,
    Prepared,
    Readiness,
    Scenario,
    assert_batchnorm_frozen,
    export_ready,
    export_ready_check,
    prepare_for_export,
)

MODEL: nn.Module = nn.Linear(3, 2).eval()
X = torch.randn(4, 3)
CASE = ExportCase(MODEL, (X,))


@export_ready
def bare() -> tuple[nn.Module, tuple[Tensor]]:
    return MODEL, (X,)


@export_ready(
    dynamic_batch=True,
    scenarios=["plain", "ddp"],
    strict="both",
    tolerance={"rtol": 1e-4},
    stages=["export"],
    ignore=["ER305"],
    reason="the batch statistics are intended",
    xfail_stage="parity",
    lower=["onnx"],
    budget={"seconds": 30, "nodes": 2000},
)
def every_argument() -> ExportCase:
    return ExportCase(MODEL, (X,), checkpoint=MODEL.state_dict(), golden=MODEL(X), target_device="cuda")


@export_ready(scenarios="as_is")
class TestGroup:
    def test_inferred(self):  # type: ignore[no-untyped-def]
        return MODEL, (X,), {"scale": 2}


assert_type(bare(), tuple[nn.Module, tuple[Tensor]])


@export_ready(dynamic_bach=True)  # type: ignore[call-overload, untyped-decorator]
def unknown_argument() -> ExportCase:
    return CASE


@export_ready(strict="sometimes")  # type: ignore[call-overload, untyped-decorator]
def unknown_value() -> ExportCase:
    return CASE


@export_ready(lower=["onxx"])  # type: ignore[list-item]
def unknown_lowering() -> ExportCase:
    return CASE


@export_ready("plain")  # type: ignore[call-overload, untyped-decorator]
def positional() -> ExportCase:
    return CASE


@export_ready  # type: ignore[type-var]
def returns_no_case() -> Tensor:
    return X


@export_ready()  # type: ignore[type-var]
def returns_what_prepare_returned() -> tuple[Prepared, tuple[Tensor]]:
    return prepare_for_export(MODEL), (X,)


prepared = prepare_for_export(MODEL, example_inputs=(X,))
module, actions = prepared
assert_type(prepared, Prepared)
assert_type(prepared.module, nn.Module)
assert_type(prepared.actions, list[str])
assert_type(module, nn.Module)
assert_type(actions, list[str])
_ = prepared.modul  # type: ignore[attr-defined]
ExportCase(prepared, (X,))  # type: ignore[arg-type]
ExportCase(MODEL, (X,), golden_tolerence=1e-3)  # type: ignore[call-arg]

readiness = export_ready_check(MODEL, (X,), dynamic_batch=True)
assert_type(readiness, Readiness)
assert_type(readiness.ready, bool)
assert_type(readiness.findings, tuple[Finding, ...])
assert_type(readiness.findings[0].line, int)
_ = readiness.redy  # type: ignore[attr-defined]
readiness.findings[0].severity = "fatal"  # type: ignore[misc, assignment]

assert_batchnorm_frozen(MODEL, example_inputs=(X,))
_ = pytest_exportready.assert_batchnorm_frosen  # type: ignore[attr-defined]
assert_batchnorm_frozen(model=X)  # type: ignore[arg-type]


def train(case: ExportCase) -> dict[str, object]:
    if case.carries_training:
        raise CannotTrain("the case carries the results of a training. Fix: scenarios=['as_is']")
    return {"steps": 0}


SCENARIO = Scenario(train=train, ranks=2)
Scenario(train=bare)  # type: ignore[arg-type]
