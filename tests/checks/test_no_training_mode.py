from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.no_training_mode import inspect, inspect_program, remedy


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner() -> torch.Tensor:
            return x * 2 if self.training else x

        return inner()


class OverridesTrain(nn.Module):
    def train(self, mode: bool = True) -> OverridesTrain:
        assert self.training in (True, False)
        return super().train(mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class StillDrops(nn.Dropout):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.training else x


def severities(model: nn.Module) -> list[str]:
    return [f.severity for f in inspect(Subject(model))]


@pytest.mark.parametrize(
    "model",
    [
        nn.Dropout(),
        nn.AlphaDropout(0.1),
        nn.BatchNorm1d(2),
        nn.LSTM(2, 2, num_layers=2, dropout=0.1),
        nn.MultiheadAttention(2, 1, dropout=0.1),
        nn.RReLU(),
        nn.InstanceNorm1d(2, track_running_stats=True),
        Branches(),
        StillDrops(0.0),
    ],
)
def test_sensitive_module_left_in_training_mode(model: nn.Module) -> None:
    assert severities(model.train()) == ["error"]
    assert severities(model.eval()) == []


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(2, 2),
        nn.Dropout(0.0),
        nn.LSTM(2, 2, num_layers=1),
        nn.MultiheadAttention(2, 1),
        nn.BatchNorm1d(2, track_running_stats=False),
        nn.InstanceNorm1d(2),
        nn.TransformerEncoderLayer(2, 1, 2, dropout=0.0),
        OverridesTrain(),
    ],
)
def test_insensitive_module_in_training_mode_is_a_note(model: nn.Module) -> None:
    assert severities(model.train()) == ["note"]


def test_hook_that_reads_the_mode() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, out: out * 2 if module.training else out)
    assert severities(model) == ["error"]


def test_names_children_before_the_root_and_looks_through_wrappers() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(x) if self.training else x

    (finding,) = inspect(Subject(nn.DataParallel(Root())))
    assert finding.where == "drop"
    assert "2 modules are in training mode" in finding.message
    assert "drop (Dropout), (root) (Root)" in finding.message


def test_remedy_is_eval_and_idempotent() -> None:
    subject = Subject(nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))
    assert remedy(subject) == ["Called `model.eval()`: 3 modules left training mode."]
    assert remedy(subject) == []


def export(function: object, strict: bool = False) -> list[Finding]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(self, x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Model().eval(), (torch.ones(2, 3, 4),), strict=strict)
    return list(inspect_program(program, Subject(Model())))


@pytest.mark.parametrize("strict", [False, True])
def test_functional_dropout_names_module_and_line(strict: bool) -> None:
    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.3)

    (finding,) = export(forward, strict)
    assert (finding.severity, finding.where) == ("error", "inner")
    assert finding.file == __file__
    assert finding.line == forward.__code__.co_firstlineno + 1
    assert "self.training" in finding.fix


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: F.batch_norm(x, self.mean, self.var, training=True),
        lambda self, x: F.instance_norm(x, self.mean, self.var, use_input_stats=True),
        lambda self, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
        lambda self, x: F.alpha_dropout(x, 0.1, True),
        lambda self, x: F.rrelu(x, training=True),
        lambda self, x: F.dropout1d(x, 0.1),
    ],
)
def test_functional_training_is_found(function: object) -> None:
    assert [f.severity for f in export(function)] == ["error"]


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: F.dropout(x, 0.0),
        lambda self, x: F.dropout(x, 0.1, self.training),
        lambda self, x: F.batch_norm(x, None, None, training=True),
        lambda self, x: F.instance_norm(x),
        lambda self, x: F.scaled_dot_product_attention(x, x, x),
        lambda self, x: F.group_norm(x, 3),
    ],
)
def test_functional_look_alikes_are_clean(function: object) -> None:
    assert export(function) == []


def test_nested_graphs_are_searched() -> None:
    def forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.dropout(x @ x.mT, 0.3)

    assert [f.severity for f in export(forward)] == ["error"]


class AsksElsewhere(nn.Module):
    """A function outside the class, in which nothing mentions the mode, asks for it."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.function(self, x)


def _asks(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 if getattr(module, "training") else x  # noqa: B009


@pytest.mark.parametrize(
    ("function", "severity"),
    [
        (_asks, "error"),
        (lambda module, x: x * 2, "note"),
        (lambda module, x: x + torch.randn(3), "note"),
        (lambda module, x: x * module.seen, "note"),
        (lambda module, x: x / 0, "note"),
        (lambda module, x: x @ x, "note"),
    ],
)
def test_the_mode_that_only_shows_in_the_output(function: object, severity: str) -> None:
    """Noise, state, NaN and a forward that fails do not depend on the mode; the module stays as it was."""
    model = AsksElsewhere(function)
    state = torch.get_rng_state()
    assert [f.severity for f in inspect(Subject(model, (torch.ones(2, 3),)))] == [severity]
    assert model.training
    assert model.seen == 0
    assert torch.equal(state, torch.get_rng_state())
