"""No forward hook that was registered from outside changes what the model computes, or keeps its tensors.

A hook left over from debugging or from a monitor becomes part of the program: a changed output is baked in, and without
the hook the module answers otherwise than its export. A hook that keeps what it sees holds FakeTensors after
``torch.export``, and whoever reads them next fails. Each hook is watched in a call on the example inputs:
one that returns what it got, counts or prints is fine, and so are hooks that the model's own class
defines and those of torch (``weight_norm``, pruning). Hooks registered for every module
(``register_module_forward_hook``) count too.

Bad:  ``net.layer.register_forward_hook(lambda module, args, output: seen.append(output))``
Good: ``handle = net.layer.register_forward_hook(...); ...; handle.remove()`` before the export
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.hook_effects import HookEffect, hook_effects
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER311", "hooks_change_nothing")

REMOVE = "handle.remove() on what registering it returned, before the export"


def inspect(subject: Subject) -> Iterator[Finding]:
    try:
        effects = hook_effects(unwrap(subject.model)[0], (subject.args, subject.kwargs))
    except Exception:
        return  # stage eager tells why it does not run
    for effect in effects:
        yield from _judge(effect)


def _judge(effect: HookEffect) -> Iterator[Finding]:
    what = f"forward hook {effect.place.name} on {few(effect.names)}"
    place: dict[str, Any] = {"file": effect.place.file, "line": effect.place.line}
    if effect.changes and effect.owned:
        yield RULE.note(effect.names[0], f"{what} changes what passes, as the model's class says: part of it.", **place)
    elif effect.changes:
        message = f"{what} changes what passes through it: its result is baked into the program."
        yield RULE.error(effect.names[0], message, f"{REMOVE}, or write it into forward", **place)
    elif effect.keeps and effect.serves:
        yield RULE.note(effect.names[0], f"{what} keeps tensors that forward goes on to use.", **place)
    elif effect.keeps:
        message = f"{what} keeps tensors of the call: torch.export leaves FakeTensors there, without values."
        yield RULE.error(effect.names[0], message, REMOVE, **place)


def _double(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def _unchanged(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
    return output.clone()


class _Recorder:
    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, _: nn.Module, __: Any, output: torch.Tensor) -> None:
        self.seen.append(output.detach())


class _Normalised(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.register_forward_hook(self._normalise)

    def _normalise(self, _: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
        return output / 2


def _hooked(hook: Any) -> Subject:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model[0].register_forward_hook(hook)
    return Subject(model.eval(), (torch.ones(1, 2),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _hooked(_unchanged), lambda: Subject(_Normalised().eval(), (torch.ones(1, 2),))),
    bad=(lambda: _hooked(_double), lambda: _hooked(_Recorder())),
)
