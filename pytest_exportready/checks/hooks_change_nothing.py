"""No forward hook that was registered from outside changes what the model computes, or keeps its tensors.

Why it matters:
    A hook left over from debugging or monitoring becomes part of the program, and without the hook the module
    computes something else than its export. A hook that stores tensors holds FakeTensors after torch.export,
    and whoever reads them next fails. Each hook is observed in a call on the example inputs.

Example:
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(output))
    export_ready_check(model, (torch.ones(1, 2),))

Instead:
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    seen = []
    handle = model[0].register_forward_hook(lambda module, args, output: seen.append(output))
    model(torch.ones(1, 2))
    handle.remove()
    export_ready_check(model, (torch.ones(1, 2),))

Severity:
    error: the hook changes tensors, or keeps tensors that `forward` does not use.
    note: the model's own class registers the hook, or `forward` uses what it keeps.

Not reported:
    Hooks that change nothing, such as counters, and those of torch (`weight_norm`, pruning).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.hook_effects import HookEffect, hook_effects
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER311", "hooks_change_nothing")

_HANDLE = "; `handle` is what `register_forward_hook()` or `register_forward_pre_hook()` returned."
_REMOVE = f"Call `handle.remove()` before exporting{_HANDLE}"
_REMOVE_OR_MOVE = f"Move the computation into `forward`, or call `handle.remove()` before exporting{_HANDLE}"


def inspect(subject: Subject) -> Iterator[Finding]:
    try:
        effects = hook_effects(subject.module, subject.call)
    except Exception:
        return  # stage eager reports why it does not run
    for effect in effects:
        yield from _judge(effect)


def _judge(effect: HookEffect) -> Iterator[Finding]:
    hook = f"Forward hook `{effect.place.name}` of module {few(effect.names)}"
    place: dict[str, Any] = {"file": effect.place.file, "line": effect.place.line}
    if effect.changes and effect.owned:
        yield RULE.note(effect.names[0], f"{hook} changes tensors; the model's class registers it.", **place)
    elif effect.changes:
        message = f"{hook} changes tensors, and becomes part of the program."
        yield RULE.error(effect.names[0], message, _REMOVE_OR_MOVE, **place)
    elif effect.keeps and effect.serves:
        yield RULE.note(effect.names[0], f"{hook} keeps tensors that `forward` uses later.", **place)
    elif effect.keeps:
        message = f"{hook} stores tensors of the forward pass; torch.export leaves FakeTensors in that storage."
        yield RULE.error(effect.names[0], message, _REMOVE, **place)


def _double(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def _unchanged(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return output.clone()


class _Recorder:
    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, _: nn.Module, __: Any, output: torch.Tensor) -> None:
        self.seen.append(output.detach())


class _Normalized(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.register_forward_hook(self._normalize)

    def _normalize(self, _: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
        return output / 2


def _hooked(hook: Any) -> Subject:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[0].register_forward_hook(hook)
    return Subject(model.eval(), (torch.ones(1, 2),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _hooked(_unchanged), lambda: Subject(_Normalized().eval(), (torch.ones(1, 2),))),
    bad=(lambda: _hooked(_double), lambda: _hooked(_Recorder())),
)
