"""Observe what forward hooks do in a call: whether they change tensors that pass through them, or keep them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.pytree import map_tensors, tensors
from pytest_exportready.analysis.module.hooks import HookPlace, UserHook, user_hooks
from pytest_exportready.analysis.module.snapshot import equal_bits, preserved
from pytest_exportready.analysis.torch_internals.tensors import each_operator


@dataclass
class HookEffect:
    """What one hook does."""

    place: HookPlace
    names: list[str] = field(default_factory=list)  # of the modules on which it is registered
    owned: bool = False
    changes: bool = False  # tensors come out with other values
    keeps: bool = False  # a tensor of the call outlives the call
    serves: bool = False  # the output differs without the hook


def hook_effects(model: nn.Module, call: Call) -> list[HookEffect]:
    """Return the effect of each forward hook in user code on an eval call of ``model``.

    Raises:
        Exception: whatever the call raises.
    """
    hooks = user_hooks(model)
    effects: dict[HookPlace, HookEffect] = {}
    watches = []
    for hook in hooks:
        effect = effects.setdefault(hook.place, HookEffect(hook.place, owned=hook.owned))
        effect.names.append(hook.name)
        watches.append(_Watch(hook.function, hook.before, effect))
    if not hooks:
        return []
    with preserved(model), global_state_kept():
        model.eval()
        with _in_place(hooks, [watch.run for watch in watches]):
            output = run(model, [call])[0]
        gc.collect()
        for watch in watches:
            watch.effect.keeps |= any(ref() is not None for ref in watch.seen)
    keepers = [hook for hook in hooks if effects[hook.place].keeps]
    if keepers:
        serve = not _same_without(model, keepers, call, output)
        for hook in keepers:
            effects[hook.place].serves = serve
    return list(effects.values())


class _Watch:
    def __init__(self, hook: Callable[..., Any], before: bool, effect: HookEffect) -> None:
        self.hook, self.before, self.effect = hook, before, effect
        self.seen: list[weakref.ref[torch.Tensor]] = []

    def run(self, *given: Any) -> Any:
        """Call the hook with aliases of the tensors, so that a kept one is not confused with the module's own."""
        through = given[1:] if self.before else given[-1:]
        was = map_tensors(lambda t: t.detach().clone(), through)
        own: dict[int, torch.Tensor] = {}
        aliases = map_tensors(lambda t: _alias(t, own), given[1:])
        made: list[weakref.ref[torch.Tensor]] = [weakref.ref(t) for t in tensors(aliases)]
        with each_operator(lambda operator, args, kwargs: _noted(operator(*args, **kwargs), made)):
            returned = self.hook(given[0], *aliases)
        returned = map_tensors(lambda t: own.get(id(t), t), returned)
        passed_on = {id(t) for t in tensors(returned)}
        self.seen += [ref for ref in made if id(ref()) not in passed_on]
        passes = through if returned is None else returned
        if self.before and returned is not None:
            passes = _as_arguments(returned, through)
        elif returned is not None:
            passes = (returned,)
        self.effect.changes |= not _same(was, passes)
        return returned


def _as_arguments(returned: Any, through: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the result of a pre-hook in the form of its input: ``(args,)``, or ``(args, kwargs)``."""
    if len(through) == 2:
        return tuple(returned)
    return (returned if isinstance(returned, tuple) else (returned,),)


def _alias(tensor: torch.Tensor, own: dict[int, torch.Tensor]) -> torch.Tensor:
    alias = tensor.view_as(tensor)
    own[id(alias)] = tensor
    return alias


def _noted(made: Any, refs: list[weakref.ref[torch.Tensor]]) -> Any:
    refs += [weakref.ref(tensor) for tensor in tensors(made)]
    return made


def _same(before: Any, after: Any) -> bool:
    a, b = tensors(before), tensors(after)
    return len(a) == len(b) and all(equal_bits(x, y.detach()) for x, y in zip(a, b, strict=True))


def _same_without(model: nn.Module, hooks: list[UserHook], call: Call, output: Any) -> bool:
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    try:
        with preserved(model), global_state_kept(), _in_place(hooks, [nothing] * len(hooks)):
            model.eval()
            return compare(output, run(model, [call])[0], Tolerance()).agree
    except Exception:
        return False


@contextmanager
def _in_place(hooks: list[UserHook], others: list[Callable[..., Any]]) -> Iterator[None]:
    for hook, other in zip(hooks, others, strict=True):
        hook.table[hook.key] = other
    try:
        yield
    finally:
        for hook in hooks:
            hook.table[hook.key] = hook.function
