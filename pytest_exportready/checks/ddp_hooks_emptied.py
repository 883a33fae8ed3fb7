"""Nothing that training wrapped around the model, or hooked into its backward pass, is left.

DistributedDataParallel cannot be exported at all, and the error does not say so. DataParallel and the
module that ``torch.compile`` returns export cleanly, but every name in the program starts with ``module.``
or ``_orig_mod.``: loading weights by name misses silently, as does a checkpoint saved from the wrapper.
Backward hooks do nothing in a program that has no backward pass, but a strict export fails at those on modules, and a
non-strict one leaves a trace of them. Forward hooks become part of the program: ``hooks_change_nothing`` judges them.

Bad:  ``torch.export.export(ddp_model, args)``
Good: ``torch.export.export(ddp_model.module.eval(), args)``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.analysis.module.hooks import describe, users_backward_hooks, users_forward_hooks
from pytest_exportready.analysis.module.wrappers import inner_wrappers, unwrap, way_in, wrapped_module
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

PREFIXES = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def inspect(subject: Subject) -> Iterator[Finding]:
    model, peeled = unwrap(subject.model)
    if peeled:
        yield _wrapped_root(subject.model, peeled)
    inner = inner_wrappers(model)
    for name, wrapper in inner:
        yield RULE.error(
            name,
            f"{name} is {type(wrapper).__name__}: names below it contain {way_in(wrapper)}.",
            f"model.{name} = model.{name}.{way_in(wrapper)}",
        )
    if not peeled and not inner and subject.checkpoint is not None:
        yield from _prefixes(model, subject.checkpoint)
    yield from _left_hooks(model, subject.strict)


def _wrapped_root(root: nn.Module, peeled: list[str]) -> Finding:
    way, module = "model", root
    hooks: list[str] = []
    while (inside := wrapped_module(module)) is not None:
        way += f".{way_in(module)}"
        hooks += [describe(hook).name for hook in comm_hooks(module) or ()]
        module = inside
    communication = f" Communication hook {few(hooks)} is registered on it." if hooks else ""
    around = " around ".join(peeled)
    return RULE.error("", f"root is {around}; export {way}.{communication}", f"torch.export.export({way}, ...)")


def _prefixes(model: nn.Module, checkpoint: Mapping[str, Any]) -> Iterator[Finding]:
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    known = parameters | {name for name, _ in model.named_buffers(remove_duplicate=False)}
    keys = {key for key in checkpoint if not key.endswith("_extra_state")}
    if parameters <= keys or not keys:
        return
    own = {"n_averaged"} if isinstance(model, AveragedModel) else set()
    for prefix in PREFIXES:  # at the front of every name; the user may have a child called module besides
        if parameters <= {key.removeprefix(prefix) for key in keys if key.startswith(prefix)} <= known:
            yield RULE.error(
                min(keys),
                f"the checkpoint's names contain {prefix} in front, the model's do not: loading by name misses all.",
                f'{{name.removeprefix("{prefix}"): value for name, value in checkpoint.items()}}',
            )
            return
    for prefixes in (*((prefix,) for prefix in PREFIXES), PREFIXES):
        bare_keys, bare_known = _without(prefixes, keys - own), _without(prefixes, known - own)
        if bare_keys != keys - own and parameters <= bare_keys <= known:
            present = _present(prefixes, keys)
            yield RULE.error(
                min(keys),
                f"the checkpoint's names contain {present}, the model's do not: loading by name misses all.",
                f'{{name.replace("{present}", ""): value for name, value in checkpoint.items()}}',
            )
            return
        if bare_known != known - own and _without(prefixes, parameters) <= keys <= bare_known:
            present = _present(prefixes, parameters)
            yield RULE.error(
                min(parameters),
                f"the model's names contain {present}, the checkpoint's do not: loading by name misses all.",
                f"export model.{present.rstrip('.')}",
            )
            return


def _without(prefixes: tuple[str, ...], names: set[str]) -> set[str]:
    """``names`` without ``prefixes``, wherever a component of a name is one."""
    return {".".join(part for part in name.split(".") if f"{part}." not in prefixes) for name in names}


def _present(prefixes: tuple[str, ...], names: set[str]) -> str:
    """Those of ``prefixes`` that occur in the one of ``names`` that has most of them, as they stand there."""
    present = ([part for part in name.split(".") if f"{part}." in prefixes] for name in sorted(names))
    return "".join(f"{part}." for part in max(present, key=len))


def _left_hooks(model: nn.Module, strict: bool) -> Iterator[Finding]:
    modules = dict(model.named_modules())
    for hook, names in users_backward_hooks(model).items():
        fails = strict and any(name in modules for name in names)
        tell = RULE.error if fails else RULE.warning
        yield tell(
            names[0],
            f"backward hook {hook.name} is left on {few(names)}{': strict export fails at it' if fails else ''}.",
            "handle.remove() on what registering it returned, or prepare_for_export(model)",
            file=hook.file,
            line=hook.line,
        )
    for hook, names in users_forward_hooks(model).items():
        message = f"forward hook {hook.name} on {few(names)} runs while the program is traced."
        yield RULE.note(names[0], message, file=hook.file, line=hook.line)


def remedy(subject: Subject) -> list[str]:
    actions = []
    subject.model, peeled = unwrap(subject.model)
    if peeled:
        actions.append(f"took {', '.join(peeled)} off the root")
    while inner := inner_wrappers(subject.model):
        name, wrapper = inner[0]
        parent, _, child = name.rpartition(".")
        setattr(subject.model.get_submodule(parent), child, unwrap(wrapper)[0])
        actions.append(f"took {type(wrapper).__name__} off {name}")
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
        actions.append(f"removed the backward hooks of {counted(len(hooked), 'module or parameter')}")
    kept = [name for name, module in subject.model.named_modules() if forward_hooks(module)]
    if kept:
        actions.append(f"left the forward hooks on {few(kept)} alone: they may compute")
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
