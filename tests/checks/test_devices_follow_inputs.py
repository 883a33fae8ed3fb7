"""Tensors that forward creates on a fixed device are found without another device."""

from __future__ import annotations

import inspect as source_of
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.devices_follow_inputs import inspect

GLOBAL = torch.tensor([1.0, 2.0])


class Net(nn.Module):
    def __init__(self, do: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.table = nn.Embedding(9, 2)
        self.gru = nn.GRU(2, 2, batch_first=True)
        self.do = do

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.do(self, x)


def judge(model: nn.Module, *args: Any, target: str | None = "cuda") -> list[Finding]:
    return list(inspect(Subject(model.eval(), args or (torch.ones(3, 2),), target_device=target)))


def on_the_spot(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(2, device="cpu")


FAULTS: dict[str, Callable[[Net, torch.Tensor], torch.Tensor]] = {
    "arange": lambda net, x: net.table(torch.arange(x.shape[0])),
    "randn": lambda net, x: x + torch.randn(2),
    "literal": lambda net, x: net.lin(x) * torch.tensor([0.5, 2.0]),
    "from a literal": lambda net, x: net.lin(x) * (torch.tensor([0.5, 2.0]) * 2).sqrt(),
    "initial state": lambda net, x: net.gru(x.unsqueeze(0), torch.zeros(1, 1, 2))[0],
    "in a list": lambda net, x: torch.cat([x, torch.ones(1, 2)]),
    "half-way to the CPU": lambda net, x: x / (1 + x.sum(-1, keepdim=True).cpu()),
    "to a device by name": lambda net, x: net.lin(x) + x.to("cpu"),
    "hard-coded": lambda net, x: on_the_spot(net.lin(x)),
    "made outside": lambda net, x: net.lin(x) + GLOBAL,
    "behind a count": lambda net, x: x + torch.nonzero(x).shape[0] + torch.arange(2),
    "behind a number": lambda net, x: x[: int(x.sum())] + torch.ones(2),
    "behind a selection": lambda net, x: net.lin(x[x[:, 0] > 0]) + torch.ones(2),
    "indexed itself": lambda net, x: torch.ones(9, 2)[x[:, 0].long()],
}

HEALTHY: dict[str, Callable[[Net, torch.Tensor], torch.Tensor]] = {
    "on the input's device": lambda net, x: net.table(torch.arange(x.shape[0], device=x.device)),
    "like the input": lambda net, x: x.new_zeros(3, 2) + torch.ones_like(x) + torch.full_like(x, 2.0),
    "a number": lambda net, x: net.lin(x) * torch.tensor(2.0),
    "an index": lambda net, x: net.lin(x)[torch.tensor([0, 2])],
    "the output only": lambda net, x: net.lin(x).cpu(),
    "moved along": lambda net, x: net.lin(x) + torch.tensor([0.5, 2.0]).to(x.device),
    "there and back": lambda net, x: net.lin(x.cpu().round().to(x.device)),
    "library layers": lambda net, x: net.gru(x.unsqueeze(0))[0],
    "counted": lambda net, x: net.lin(x) + torch.nonzero(x).sum() + x.unique().sum() + int(x.sum()),
    "selected": lambda net, x: net.lin(x[x[:, 0] > 0]) + x.new_zeros(2),
    "in the constructor's list": lambda net, x: net.lin(x) + 1,
}


@pytest.mark.parametrize("do", FAULTS.values(), ids=FAULTS)
def test_fault_is_named_with_its_line(do: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
    (finding,) = judge(Net(do))
    line = (
        source_of.getsourcelines(on_the_spot)[1] + 1
        if "on_the_spot" in do.__code__.co_names
        else do.__code__.co_firstlineno
    )
    assert (Path(finding.file).name, finding.line) == (Path(__file__).name, line)
    assert finding.severity == "error"
    assert finding.fix


@pytest.mark.parametrize("do", HEALTHY.values(), ids=HEALTHY)
def test_look_alike_is_clean(do: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
    assert judge(Net(do)) == []


def test_every_fault_is_reported_at_once() -> None:
    def do(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.ones(2)
        return net.lin(x) + torch.zeros(2)

    first, second = judge(Net(do))
    assert second.line == first.line + 1


def test_only_another_kind_of_device_is_judged() -> None:
    assert judge(Net(FAULTS["arange"]), target="cpu") == []
    assert judge(Net(FAULTS["arange"]), target=None) == []


def test_up_to_a_branch_on_values_it_is_judged() -> None:
    def do(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.ones(2)
        return x if x.sum() > 0 else x + torch.zeros(2)

    assert len(judge(Net(do))) == 1


def test_a_loop_that_values_would_end_is_left() -> None:
    def do(net: Net, x: torch.Tensor) -> torch.Tensor:
        while (x > 0).any():
            x = x - 1
        return x + torch.ones(2)

    assert judge(Net(do)) == []


def test_if_the_branch_for_the_target_cannot_run_the_branch_here_is_judged() -> None:
    def do(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = torch.ops.exportready_absent.scan(x) if x.is_cuda else x
        return x + torch.ones(2)

    assert len(judge(Net(do))) == 1


def test_the_same_kind_of_device_under_another_index_is_judged() -> None:
    assert len(judge(Net(FAULTS["arange"]), target="cpu:1")) == 1
    assert judge(Net(FAULTS["arange"]), target="cpu:0") == []


def test_a_model_without_a_faithful_copy_is_left_alone() -> None:
    model = Net(HEALTHY["a number"])
    plain = model.forward
    model.forward = lambda x: plain(x)
    assert judge(model) == []


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.TransformerEncoderLayer(4, 2, batch_first=True), (2, 3, 4)),
        (nn.LSTM(4, 3, num_layers=2, bidirectional=True), (2, 3, 4)),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)), (1, 2, 8, 8)),
    ],
)
def test_layers_of_torch_are_clean(model: nn.Module, shape: tuple[int, ...]) -> None:
    assert judge(model, torch.ones(shape)) == []


def test_the_model_stays_as_it_was() -> None:
    model = Net(FAULTS["literal"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    judge(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
