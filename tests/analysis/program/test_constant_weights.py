"""A weight that forward reaches past the module's parameters is told; every healthy way of sharing weights is not."""

from __future__ import annotations

import collections
import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pytest
import torch
from stage_runs import run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.detectors import unregistered_parameters
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import export

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Reads(nn.Module):
    """Keeps ``kept`` beside a linear layer and reads it by ``read``."""

    def __init__(self, keep: Callable[[Reads], object], read: Callable[[Reads, Tensor], Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.kept = keep(self)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self, self.linear(x))


def _applied(layer: nn.Module, x: Tensor) -> Any:
    return layer(x)


HEAD = nn.Linear(3, 3, bias=False)


class ReadsGlobal(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return self._head(x)

    def _head(self, x: Tensor) -> Any:
        return HEAD(x)


class ReadsClass(nn.Module):
    heads: ClassVar = collections.deque([nn.Linear(3, 3, bias=False)])

    def forward(self, x: Tensor) -> Any:
        return self.heads[0](x)


def test_a_layer_where_nobody_looks() -> None:
    """Its place is the line that reads it."""
    trial = Trial(ExportCase(ReadsClass().eval(), (X,)), CaseOptions(), "non-strict")
    (finding,) = [finding for finding in run_stage(export.run, trial) if finding.code == "ER123"]
    assert finding.severity == "error"
    assert (finding.file, finding.line) == (__file__, inspect.getsourcelines(ReadsClass.forward)[1] + 1)


def test_a_layer_that_is_global() -> None:
    assert found(ReadsGlobal()) == [("error", "HEAD.weight")]


def found(model: nn.Module, x: Tensor = X, mode: str = "non-strict") -> list[tuple[str, str]]:
    trial = Trial(ExportCase(model.eval(), (x,)), CaseOptions(), mode)  # type: ignore[arg-type]
    return [(f.severity, f.where) for f in run_stage(export.run, trial) if f.code == "ER123"]


FAULTS = {
    "alias in a list": (lambda net: [net.linear.weight], lambda net, x: x @ net.kept[0], "kept[0] is linear.weight"),
    "alias in a dict": (
        lambda net: {"w": net.linear.bias},
        lambda net, x: x + net.kept["w"],
        "kept['w'] is linear.bias",
    ),
    "layer in a list": (lambda net: [nn.Linear(3, 3, bias=False)], lambda net, x: net.kept[0](x), "kept[0].weight"),
    "layer in a tuple in a dict": (
        lambda net: {"a": (nn.Linear(3, 3, bias=False),)},
        lambda net, x: net.kept["a"][0](x),
        "kept['a'][0].weight",
    ),
    "layer in a closure": (
        lambda net: (lambda layer: lambda x: layer(x))(nn.Linear(3, 3, bias=False)),
        lambda net, x: net.kept(x),
        "kept.layer.weight",
    ),
    "layer in a partial": (
        lambda net: functools.partial(_applied, nn.Linear(3, 3, bias=False)),
        lambda net, x: net.kept(x),
        "kept[0].weight",
    ),
    "layer behind its method": (
        lambda net: nn.Linear(3, 3, bias=False).forward,
        lambda net, x: net.kept(x),
        "kept.__self__.weight",
    ),
    "parameter in a list": (lambda net: [nn.Parameter(torch.ones(3))], lambda net, x: x * net.kept[0], "kept[0]"),
}


@pytest.mark.parametrize(("keep", "read", "where"), FAULTS.values(), ids=FAULTS)
def test_told_with_its_place(keep: Callable[..., object], read: Callable[..., Tensor], where: str) -> None:
    assert found(Reads(keep, read)) == [("error", where)]


def test_frozen_on_purpose_is_a_warning() -> None:
    """A teacher hidden in a list so that it is not trained: it works, and whoever ships should know."""
    teacher = nn.Linear(3, 3).requires_grad_(False)
    assert [s for s, _ in found(Reads(lambda net: [teacher], lambda net, x: net.kept[0](x)))] == ["warning"]


HEALTHY = {
    "not read by forward": lambda: Reads(lambda net: [net.linear.weight, nn.Linear(3, 3)], lambda net, x: x),
    "modules registered besides": lambda: Reads(lambda net: [net.linear], lambda net, x: net.kept[0](x)),
    "module list": lambda: Reads(lambda net: nn.ModuleList([nn.Linear(3, 3)]), lambda net, x: net.kept[0](x)),
    "parameter list": lambda: Reads(lambda net: nn.ParameterList([torch.ones(3)]), lambda net, x: x * net.kept[0]),
    "tied by attribute": lambda: Reads(lambda net: net.linear.weight, lambda net, x: x @ net.kept),
    "plain constant": lambda: Reads(lambda net: [torch.ones(3)], lambda net, x: x * net.kept[0]),
    "old weight_norm": lambda: nn.utils.weight_norm(nn.Linear(3, 3)),
    "new weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("mode", ["non-strict", "strict"])
@pytest.mark.parametrize("build", HEALTHY.values(), ids=HEALTHY)
def test_healthy_is_not_told(build: Callable[[], nn.Module], mode: str) -> None:
    assert found(build(), mode=mode) == []


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_keep_a_list_of_their_own(kind: type[nn.Module]) -> None:
    assert found(kind(3, 5, num_layers=2, bidirectional=True), X[None]) == []


@pytest.mark.parametrize("mode", ["non-strict", "strict"])
def test_attention_is_healthy(mode: str) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    assert found(layer, torch.ones(2, 3, 4), mode) == []


def test_a_module_that_cannot_be_watched_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compiled code within, which takes no watching mode."""
    watched: list[object] = []

    def refuses(run: object) -> AbstractContextManager[None]:
        watched.append(run)
        raise RuntimeError("no modes here")

    monkeypatch.setattr(unregistered_parameters, "each_operator", refuses)
    assert found(Reads(lambda net: [torch.ones(3)], lambda net, x: x * net.kept[0])) == []
    assert watched
