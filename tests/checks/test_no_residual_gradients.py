from __future__ import annotations

import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.no_residual_gradients import inspect, remedy


def with_gradients(value: float = 1.0) -> nn.Linear:
    model = nn.Linear(512, 512, bias=False)
    model.weight.grad = torch.full((512, 512), value)
    return model


def test_reports_count_size_and_names() -> None:
    (finding,) = inspect(Subject(nn.Sequential(with_gradients(), nn.Linear(2, 2), with_gradients())))
    assert (finding.severity, finding.where) == ("warning", "0.weight")
    assert "2 parameters (2.0 MiB): 0.weight, 2.weight." in finding.message
    assert "Not finite" not in finding.message


def test_names_those_that_are_not_finite() -> None:
    (finding,) = inspect(Subject(nn.Sequential(with_gradients(), with_gradients(float("nan")))))
    assert "Not finite: 1.weight." in finding.message


def test_sparse_gradient() -> None:
    model = nn.Embedding(4, 2, sparse=True)
    (model(torch.tensor([1, 1])).sum() * float("inf")).backward()
    (finding,) = inspect(Subject(model))
    assert "Not finite: weight." in finding.message


def test_remedy_looks_through_wrappers_and_is_idempotent() -> None:
    subject = Subject(nn.DataParallel(with_gradients()))
    assert [f.where for f in inspect(subject)] == ["weight"]
    assert remedy(subject) == ["Set the gradients of 1 parameter to None."]
    assert remedy(subject) == []
    assert list(inspect(subject)) == []
