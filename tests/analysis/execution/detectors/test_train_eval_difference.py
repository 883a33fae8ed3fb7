"""A difference between the modes shows in outputs, in written state and in random numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pytest_exportready.analysis.execution.detectors.train_eval_difference import mode_shows

X = torch.ones(4, 3)
Forward = Callable[["Net", torch.Tensor], torch.Tensor]


class Net(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.count = 0
        self.does = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.does(self, x)


def rarely_drops(net: Net, x: torch.Tensor) -> torch.Tensor:
    return x * (torch.rand(()) >= 1e-9) if net.training else x


def counts_in_training(net: Net, x: torch.Tensor) -> torch.Tensor:
    if net.training:
        net.seen += 1
    return x


def counts_in_python(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.count += net.training
    return x


SHOWS: dict[str, Forward] = {
    "another output": lambda net, x: x * 2 if net.training else x,
    "a rare drop": rarely_drops,
    "a buffer written": counts_in_training,
    "a counter": counts_in_python,
    "dropout": lambda net, x: F.dropout(x, 0.5, net.training),
}
SAME: dict[str, Forward] = {
    "no branch": lambda net, x: x + 1,
    "a probability of 0": lambda net, x: F.dropout(x, 0.0, net.training),
    "attention without dropout": lambda net, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.0 * net.training),
    "random in both": lambda net, x: x + torch.rand_like(x),
    "a clamp that is not reached": lambda net, x: x.clamp(max=9.0) if net.training else x,
}


@pytest.mark.parametrize("forward", SHOWS.values(), ids=SHOWS)
def test_it_shows(forward: Forward) -> None:
    net = Net(forward)
    assert mode_shows(net, ((X,), {})) is True
    assert (net.training, float(net.seen), net.count) == (True, 0.0, 0), "the module is restored"


@pytest.mark.parametrize("forward", SAME.values(), ids=SAME)
def test_it_does_not_show(forward: Forward) -> None:
    assert mode_shows(Net(forward), ((X,), {})) is False


def test_a_module_that_does_not_run() -> None:
    assert mode_shows(Net(lambda net, x: x + 1), ((), {})) is None
