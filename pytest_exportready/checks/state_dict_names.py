"""The state dict has the names of the model's parameters and buffers.

Why it matters:
    A hook on saving (`register_state_dict_pre_hook`, a hook of a training library) may rename or drop
    entries. The checkpoint then has other names than the program, and weights loaded by name do not match.

Example:
    def rename(module, state, prefix, metadata):
        state["first.weight"] = state.pop("weight")

    model = nn.Linear(2, 2).eval()
    model.register_state_dict_post_hook(rename)
    export_ready_check(model, (torch.ones(1, 2),))

Instead:
    model = nn.Linear(2, 2).eval()
    checkpoint = {f"first.{name}": value for name, value in model.state_dict().items()}
    export_ready_check(model, (torch.ones(1, 2),))

Severity:
    error: a hook adds or renames entries.
    note: a hook only omits entries (a frozen backbone, the base of an adapter).

Not reported:
    Hooks that change no name, and those of torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.hooks import describe, is_of_torch
from pytest_exportready.analysis.torch_internals.hooks import state_dict_hooks
from pytest_exportready.analysis.torch_internals.modules import is_persistent
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER317", "state_dict_names")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    hooks = [
        (name, place)
        for name, module in model.named_modules()
        for hook in state_dict_hooks(module)
        if not is_of_torch(place := describe(hook))
    ]
    if not hooks:
        return
    own = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for prefix, module in model.named_modules(remove_duplicate=False):
        keys = [key for key, _ in module.named_buffers(recurse=False) if is_persistent(module, key)]
        own |= {f"{prefix}.{key}".removeprefix(".") for key in keys}
    try:
        saved = {name for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    except Exception:
        return  # a state dict that cannot be made has no names to compare
    where, place = hooks[0]
    source: dict[str, Any] = {"file": place.file, "line": place.line}
    if added := sorted(saved - own):
        yield RULE.error(
            where,
            f"State-dict hook `{place.name}` adds {counted(len(added), 'name')} that the model lacks: {few(added)}.",
            "Call `remove()` on the handle that registering returned, and save the checkpoint again.",
            **source,
        )
    elif dropped := sorted(own - saved):
        message = f"State-dict hook `{place.name}` omits {counted(len(dropped), 'name')}: {few(dropped)}."
        yield RULE.note(where, message, **source)


def _rename(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state[f"{prefix}first"] = state.pop(f"{prefix}weight")


def _nothing(*_: Any) -> None:
    return None


def _hooked(hook: Any) -> Subject:
    model = nn.Linear(2, 2).eval()
    model.register_state_dict_post_hook(hook)  # type: ignore[no-untyped-call]
    return Subject(model, (torch.ones(1, 2),))


CHECK = Check(rule=RULE, inspect=inspect, good=(lambda: _hooked(_nothing),), bad=(lambda: _hooked(_rename),))
