from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.optimizer_holds_weights import inspect


def findings(model: nn.Module, optimizer: object, **state: object) -> list[tuple[str, str]]:
    found = inspect(Subject(model, training_state={"optimizer": optimizer, **state}))
    return [(finding.where, finding.message) for finding in found]


def test_parameters_created_again() -> None:
    """By ``assign=True``, with the same shapes."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[1].load_state_dict({name: tensor.clone() for name, tensor in model[1].state_dict().items()}, assign=True)
    ((where, message),) = findings(model, optimizer)
    assert where == "1.weight, 1.bias"
    assert "2 parameters" in message


def test_a_discriminator_beside_a_body_that_is_not_trained() -> None:
    """An optimizer of two models, one of which is trained in part."""
    net, discriminator = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5)), nn.Conv2d(3, 3, 3)
    assert findings(net, torch.optim.SGD([*net[1].parameters(), *discriminator.parameters()], lr=0.1)) == []


def test_frozen_parameters_and_state_dicts_are_fine() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5))
    net[0].requires_grad_(False)
    optimizer = torch.optim.SGD([*net[1].parameters(), *nn.Linear(4, 8).parameters()], lr=0.1)
    assert findings(net, optimizer) == []
    assert findings(net, optimizer.state_dict()) == []


@pytest.mark.parametrize(
    ("make", "reported"),
    [
        (lambda p: torch.optim.Adam(p), True),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), True),
        (lambda p: torch.optim.SGD(p, lr=0.1), False),
    ],
    ids=["Adam", "momentum", "plain SGD"],
)
def test_an_optimizer_that_took_no_step(make: object, reported: bool) -> None:
    """Reported only if a step leaves a state, and the case says that steps were taken."""
    model = nn.Linear(2, 2)
    optimizer = make(model.parameters())  # type: ignore[operator]
    assert bool(findings(model, optimizer, step=3)) is reported
    assert findings(model, optimizer, step=0) == findings(model, optimizer) == []
