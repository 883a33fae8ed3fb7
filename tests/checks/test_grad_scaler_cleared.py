from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.grad_scaler_cleared import inspect, remedy


class Loop:
    """One model, its optimizer and a scaler, stopped after some calls of an iteration."""

    def __init__(self, *calls: str, loss_factor: float = 1.0) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = GradScaler("cpu", init_scale=8.0)
        self.scaler.scale(self.model(torch.ones(1, 2)).sum() * loss_factor).backward()
        for call in calls:
            getattr(self.scaler, call)(*(() if call == "update" else (self.optimizer,)))

    @property
    def subject(self) -> Subject:
        return Subject(self.model, training_state={"scaler": self.scaler})


def messages(subject: Subject) -> list[str]:
    return [f"{f.severity} {f.where}: {f.message}" for f in inspect(subject)]


@pytest.mark.parametrize(
    ("calls", "factor", "message"),
    [
        (("unscale_",), 1.0, "were not called"),
        (("step",), 1.0, "`update()` was not"),
        (("unscale_",), float("inf"), "found_inf"),
        (("unscale_", "step"), float("nan"), "found_inf"),
    ],
)
def test_stopped_within_an_iteration(calls: tuple[str, ...], factor: float, message: str) -> None:
    (found,) = messages(Loop(*calls, loss_factor=factor).subject)
    assert found.startswith("error scaler: ")
    assert message in found


@pytest.mark.parametrize("calls", [(), ("step", "update"), ("unscale_", "step", "update")])
def test_between_iterations_is_clean(calls: tuple[str, ...]) -> None:
    assert messages(Loop(*calls).subject) == []


def test_remedy_keeps_the_scale_and_makes_it_picklable() -> None:
    loop = Loop("unscale_")
    with pytest.raises(AssertionError):
        pickle.dumps(loop.scaler)
    subject = loop.subject
    assert remedy(subject) == ["Cleared the state of scaler for each optimizer; its scale is unchanged."]
    assert remedy(subject) == []
    assert messages(subject) == []
    assert loop.scaler.get_scale() == 8.0
    pickle.dumps(loop.scaler)


def test_scaler_kept_on_a_module_is_found_once() -> None:
    loop = Loop("step")
    loop.model.amp = loop.scaler
    assert [f.where for f in inspect(Subject(loop.model))] == ["amp"]
    assert [f.where for f in inspect(loop.subject)] == ["scaler"]


@pytest.mark.parametrize("state", [{}, GradScaler("cpu").state_dict(), GradScaler("cpu", enabled=False), None])
def test_disabled_absent_or_saved_is_clean(state: object) -> None:
    assert messages(Subject(nn.Linear(2, 1), training_state={"scaler": state})) == []


@pytest.mark.parametrize(
    ("scale", "severity"),
    [(float("nan"), "error"), (float("inf"), "error"), (0.0, "error"), (-1.0, "error"), (0.5, "warning")],
)
def test_unusable_scale(scale: float, severity: str) -> None:
    (message,) = messages(Subject(nn.Linear(2, 1), training_state={"scaler": {"scale": scale}}))
    assert message.startswith(severity)
    scaler = GradScaler("cpu", init_scale=scale)
    (message,) = messages(Subject(nn.Linear(2, 1), training_state={"scaler": scaler}))
    assert message.startswith(severity)


@pytest.mark.parametrize("scale", [1.0, 128.0, 2.0**24])
def test_usable_scale(scale: float) -> None:
    assert messages(Subject(nn.Linear(2, 1), training_state={"scaler": {"scale": scale}})) == []


def test_more_than_one_optimizer_is_judged_each() -> None:
    loop = Loop("step")
    other = torch.optim.SGD(loop.model.parameters(), lr=0.1)
    loop.scaler.unscale_(other)
    assert len(messages(loop.subject)) == 2
