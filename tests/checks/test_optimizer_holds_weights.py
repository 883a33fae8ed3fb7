from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.optimizer_holds_weights import inspect


def told(model: nn.Module, optimizer: object, **state: object) -> list[tuple[str, str]]:
    found = inspect(Subject(model, training_state={"optimizer": optimizer, **state}))
    return [(finding.where, finding.message) for finding in found]


def test_parameters_made_anew() -> None:
    """By ``assign=True``: no shape is another."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[1].load_state_dict({name: tensor.clone() for name, tensor in model[1].state_dict().items()}, assign=True)
    ((where, message),) = told(model, optimizer)
    assert where == "1.weight, 1.bias"
    assert message.startswith("2 parameters in no group of the optimizer")


def test_a_discriminator_beside_a_body_that_is_left_alone() -> None:
    """An optimizer of two models, one of which is trained in part."""
    net, discriminator = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5)), nn.Conv2d(3, 3, 3)
    assert told(net, torch.optim.SGD([*net[1].parameters(), *discriminator.parameters()], lr=0.1)) == []


def test_frozen_parameters_and_state_dicts_are_fine() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5))
    net[0].requires_grad_(False)
    optimizer = torch.optim.SGD([*net[1].parameters(), *nn.Linear(4, 8).parameters()], lr=0.1)
    assert told(net, optimizer) == []
    assert told(net, optimizer.state_dict()) == []


@pytest.mark.parametrize(
    ("make", "tells"),
    [
        (lambda p: torch.optim.Adam(p), True),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), True),
        (lambda p: torch.optim.SGD(p, lr=0.1), False),
    ],
    ids=["Adam", "momentum", "plain SGD"],
)
def test_an_optimizer_that_took_no_step(make: object, tells: bool) -> None:
    """Told only where a step leaves a state, and steps are said to have been taken."""
    model = nn.Linear(2, 2)
    optimizer = make(model.parameters())  # type: ignore[operator]
    assert bool(told(model, optimizer, step=3)) is tells
    assert told(model, optimizer, step=0) == told(model, optimizer) == []
