"""Forward hooks are judged by what they do to a call, not by their existence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.utils import prune

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.hooks_change_nothing import inspect

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    SEEN.clear()
    yield
    SEEN.clear()


def judge(model: nn.Module) -> list[Finding]:
    return list(inspect(Subject(model.eval(), (torch.ones(1, 2),))))


def after(hook: Callable[..., Any], **said: Any) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[0].register_forward_hook(hook, **said)
    return model


def before(hook: Callable[..., Any], **said: Any) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[1].register_forward_pre_hook(hook, **said)
    return model


class Spy:
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.kept["mean"] = output.detach().mean(0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: after(lambda module, args, output: output * 2),
        lambda: after(lambda module, args, output: output.mul_(2)),
        lambda: after(lambda module, args, kwargs, output: output + 1, with_kwargs=True),
        lambda: before(lambda module, args: (args[0] + 1,)),
        lambda: before(lambda module, args: args[0] + 1),
        lambda: before(lambda module, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True),
        lambda: after(lambda module, args, output: SEEN.append(output)),
        lambda: after(lambda module, args, output: SEEN.append(output.detach().cpu())),
        lambda: after(lambda module, args, output: SEEN.append({"norm": output.norm()})),
        lambda: after(Spy()),
        lambda: after(lambda module, args, output: (SEEN.append(output), output)[1]),
        lambda: after(lambda module, args, output: setattr(module, "features", output)),
        lambda: before(lambda module, args: SEEN.append(args[0])),
    ],
)
def test_what_changes_or_keeps_is_named(build: Callable[[], nn.Module]) -> None:
    (finding,) = judge(build())
    assert finding.severity == "error"
    assert finding.where in ("0", "1")
    assert finding.file == __file__
    assert finding.line
    assert "`handle.remove()`" in finding.fix


@pytest.mark.parametrize(
    "build",
    [
        lambda: after(lambda module, args, output: None),
        lambda: after(lambda module, args, output: output),
        lambda: after(lambda module, args, output: output.clone()),
        lambda: after(lambda module, args, output: SEEN.append(tuple(output.shape))),
        lambda: after(lambda module, args, output: SEEN.append(float(output.mean()))),
        lambda: before(lambda module, args: args),
        lambda: before(lambda module, args: None),
        lambda: before(lambda module, args, kwargs: (args, kwargs), with_kwargs=True),
        lambda: nn.utils.spectral_norm(nn.Linear(2, 2)),
        lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=1),
        lambda: nn.Linear(2, 2),
    ],
)
def test_what_does_neither_is_clean(build: Callable[[], nn.Module]) -> None:
    assert judge(build()) == []


class Keeps(nn.Module):
    """The model itself keeps what passes."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.lin(x)
        return self.last


@pytest.mark.parametrize("hook", [lambda module, args, output: output, lambda module, args, output: output.clone()])
def test_what_the_model_keeps_is_not_the_hooks_doing(hook: Callable[..., Any]) -> None:
    model = Keeps()
    model.lin.register_forward_hook(hook)
    assert judge(model) == []


class Owned(nn.Module):
    """Hooks as part of the architecture: one changes, one collects what forward goes on to use."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.found: list[torch.Tensor] = []
        self.lin.register_forward_hook(self.halve)
        self.lin.register_forward_hook(lambda module, args, output: self.found.append(output))

    def halve(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output / 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.found.clear()
        self.lin(x)
        return self.found[0]


def test_hooks_that_belong_to_the_model_are_notes() -> None:
    assert {f.severity for f in judge(Owned())} == {"note"}


def test_hooks_for_every_module_count_too() -> None:
    handles = [
        register_module_forward_hook(lambda module, args, output: output + 1 if isinstance(module, nn.ReLU) else None),
        register_module_forward_pre_hook(lambda module, args: None),
    ]
    try:
        (finding,) = judge(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    finally:
        for handle in handles:
            handle.remove()
    assert finding.where == "every module"


def test_the_hooks_are_restored() -> None:
    hook = Spy()
    model = after(hook)
    judge(model)
    assert list(model[0]._forward_hooks.values()) == [hook]


def test_a_model_that_does_not_run_is_left_to_others() -> None:
    assert judge(before(lambda module, args: 1 / 0)) == []
