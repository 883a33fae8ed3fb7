"""No wrapper of training is around the model or inside it, and no backward hook is left.

Why it matters:
    DistributedDataParallel cannot be exported. DataParallel and the module that `torch.compile` returns can,
    but the names in the program then start with `module.` or `_orig_mod.`, and loading weights by name
    matches nothing. Strict export fails on backward hooks of modules.

Example:
    model = nn.Sequential(nn.Linear(2, 2))
    export_ready_check(nn.DataParallel(model).eval(), (torch.ones(1, 2),))

Instead:
    model = nn.Sequential(nn.Linear(2, 2))
    export_ready_check(model.eval(), (torch.ones(1, 2),))

Severity:
    error: a wrapper, or its prefix in names of the checkpoint; a backward hook that strict export fails on.
    warning: other backward hooks.
    note: forward hooks, which become part of the program (see ER311).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.analysis.module.hooks import describe, user_backward_hooks, user_forward_hooks
from pytest_exportready.analysis.module.wrappers import inner_attribute, inner_wrappers, unwrap, wrapped_module
from pytest_exportready.analysis.torch_internals.hooks import (
    backward_hooks,
    clear_backward_hooks,
    clear_gradient_hooks,
    comm_hooks,
    forward_hooks,
    gradient_hooks,
)
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER303", "ddp_hooks_emptied")

_MISSES = "Loading by name does not match them."
PREFIXES = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def inspect(subject: Subject) -> Iterator[Finding]:
    model, wrappers = unwrap(subject.model)
    if wrappers:
        yield _wrapped_root(subject.model, wrappers)
    inner = inner_wrappers(model)
    for name, wrapper in inner:
        inside = inner_attribute(wrapper)
        yield RULE.error(
            name,
            f"`{name}` is wrapped in {type(wrapper).__name__}, so names inside it contain `{inside}`.",
            f"Assign `model.{name} = model.{name}.{inside}`.",
        )
    if not wrappers and not inner and subject.checkpoint is not None:
        yield from _prefixes(model, subject.checkpoint)
    yield from _left_hooks(model, subject.strict)


def _wrapped_root(root: nn.Module, wrappers: list[str]) -> Finding:
    path, module = "model", root
    hooks: list[str] = []
    while (inside := wrapped_module(module)) is not None:
        path += f".{inner_attribute(module)}"
        hooks += [describe(hook).name for hook in comm_hooks(module) or ()]
        module = inside
    communication = f" It has a communication hook: {few(hooks)}." if hooks else ""
    message = f"The model is wrapped in {' around '.join(wrappers)}.{communication}"
    return RULE.error("", message, f"Export the module inside: `torch.export.export({path}, ...)`.")


def _prefixes(model: nn.Module, checkpoint: Mapping[str, Any]) -> Iterator[Finding]:
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    known = parameters | {name for name, _ in model.named_buffers(remove_duplicate=False)}
    keys = {key for key in checkpoint if not key.endswith("_extra_state")}
    if parameters <= keys or not keys:
        return
    own = {"n_averaged"} if isinstance(model, AveragedModel) else set()
    for prefix in PREFIXES:  # at the front of every name; the model may also have a child called module
        if parameters <= {key.removeprefix(prefix) for key in keys if key.startswith(prefix)} <= known:
            yield RULE.error(
                min(keys),
                f"Names in the checkpoint start with `{prefix}`, names in the model do not. {_MISSES}",
                f'Load `{{name.removeprefix("{prefix}"): value for name, value in checkpoint.items()}}`.',
            )
            return
    for prefixes in (*((prefix,) for prefix in PREFIXES), PREFIXES):
        bare_keys, bare_known = _without(prefixes, keys - own), _without(prefixes, known - own)
        if bare_keys != keys - own and parameters <= bare_keys <= known:
            present = _present(prefixes, keys)
            yield RULE.error(
                min(keys),
                f"Names in the checkpoint contain `{present}`, names in the model do not. {_MISSES}",
                f'Load `{{name.replace("{present}", ""): value for name, value in checkpoint.items()}}`.',
            )
            return
        if bare_known != known - own and _without(prefixes, parameters) <= keys <= bare_known:
            present = _present(prefixes, parameters)
            yield RULE.error(
                min(parameters),
                f"Names in the model contain `{present}`, names in the checkpoint do not. {_MISSES}",
                f"Export `model.{present.rstrip('.')}`.",
            )
            return


def _without(prefixes: tuple[str, ...], names: set[str]) -> set[str]:
    """Return ``names`` without the components that are one of ``prefixes``."""
    return {".".join(part for part in name.split(".") if f"{part}." not in prefixes) for name in names}


def _present(prefixes: tuple[str, ...], names: set[str]) -> str:
    """Return the components of the name with most of ``prefixes`` that are one of them, joined."""
    present = ([part for part in name.split(".") if f"{part}." in prefixes] for name in sorted(names))
    return "".join(f"{part}." for part in max(present, key=len))


def _left_hooks(model: nn.Module, strict: bool) -> Iterator[Finding]:
    modules = dict(model.named_modules())
    for hook, names in user_backward_hooks(model).items():
        fails = strict and any(name in modules for name in names)
        yield RULE.report(
            "error" if fails else "warning",
            names[0],
            f"Backward hook `{hook.name}` is registered on {few(names)}."
            + (" Strict export fails on it." if fails else ""),
            "Call `remove()` on the handle that registering returned, or `prepare_for_export(model)`.",
            file=hook.file,
            line=hook.line,
        )
    for hook, names in user_forward_hooks(model).items():
        message = f"Forward hook `{hook.name}` on {few(names)} runs while the program is traced."
        yield RULE.note(names[0], message, file=hook.file, line=hook.line)


def remedy(subject: Subject) -> list[str]:
    actions = []
    subject.model, wrappers = unwrap(subject.model)
    if wrappers:
        actions.append(f"Removed {', '.join(wrappers)} around the model.")
    while inner := inner_wrappers(subject.model):
        name, wrapper = inner[0]
        parent, _, child = name.rpartition(".")
        setattr(subject.model.get_submodule(parent), child, unwrap(wrapper)[0])
        actions.append(f"Removed {type(wrapper).__name__} around {name}.")
    hooked: list[nn.Module | torch.Tensor] = []
    for module in subject.model.modules():
        if backward_hooks(module):
            clear_backward_hooks(module)
            hooked.append(module)
    for parameter in subject.model.parameters():
        if gradient_hooks(parameter):
            clear_gradient_hooks(parameter)
            hooked.append(parameter)
    if hooked:
        actions.append(
            f"Removed the backward hooks of {counted(len(hooked), 'module or parameter', 'modules or parameters')}."
        )
    kept = [name for name, module in subject.model.named_modules() if forward_hooks(module)]
    if kept:
        actions.append(f"Kept the forward hooks on {few(kept)}: they may compute.")
    return actions


def _tally(*_: Any) -> None:
    return None


def _hooked(register: str) -> Subject:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    getattr(model[0], register)(_tally)
    return Subject(model.eval(), (torch.ones(1, 2),))


def _net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2)).eval()


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    remedy=remedy,
    good=(
        lambda: Subject(_net(), (torch.ones(1, 2),), checkpoint=_net().state_dict()),
        lambda: _hooked("register_forward_hook"),
    ),
    bad=(
        lambda: Subject(nn.DataParallel(_net()), (torch.ones(1, 2),)),
        lambda: _hooked("register_full_backward_hook"),
        lambda: Subject(_net(), (torch.ones(1, 2),), checkpoint=nn.DataParallel(_net()).state_dict()),
    ),
)
