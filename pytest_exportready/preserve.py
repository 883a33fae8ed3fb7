"""Leave a module exactly as it was, whatever trains, runs or traces it in between.

Nothing is copied but tensor data: ``copy.deepcopy`` can lie (a copy may come back in another mode, an instance-patched
``forward`` stays bound to the original) or fail, so the user's own module is used and then put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_exportready.torch_internals import gradient_hook_tables

_PLAIN = (torch.Tensor, nn.Parameter)


@dataclass(frozen=True)
class Change:
    """where: qualified name of the attribute. what: ``written`` (tensor data), ``set``, ``added``, ``removed``.

    now: the attribute's present value (the tensor, for ``written``).
    """

    where: str
    what: str
    now: Any = None


class Preserved:
    """The state of a module at one moment; see ``preserved``."""

    def __init__(self, model: nn.Module) -> None:
        self._modules: dict[int, tuple[str, nn.Module, type, dict[str, Any]]] = {}
        self._containers: dict[int, tuple[str, Any, Any]] = {}
        self._tensors: dict[int, tuple[str, torch.Tensor, _TensorState]] = {}
        self._record("", model)

    def _record(self, name: str, value: Any) -> None:
        pending: deque[tuple[str, Any]] = deque([(name, value)])
        while pending:
            name, value = pending.popleft()
            if isinstance(value, nn.Module):
                if id(value) not in self._modules:
                    self._modules[id(value)] = (name, value, type(value), dict(value.__dict__))
                    pending.extend((_join(name, key), item) for key, item in value.__dict__.items())
            elif isinstance(value, torch.Tensor):
                if id(value) not in self._tensors:
                    self._tensors[id(value)] = (name, value, _TensorState(value))
            elif isinstance(value, (dict, list, set, deque)):
                if id(value) not in self._containers:
                    self._containers[id(value)] = (name, value, value.copy())
                    pending.extend(_items(name, value))
            elif isinstance(value, tuple):
                pending.extend(_items(name, value))

    def changes(self) -> list[Change]:
        """What differs from the recorded state now."""
        found = []
        for name, module, _, before in self._modules.values():
            found += _differences(name, before, module.__dict__)
        for name, container, before in self._containers.values():
            if isinstance(container, dict):
                found += _differences(name, before, container)
            elif len(before) != len(container) or any(a is not b for a, b in zip(before, container, strict=True)):
                found.append(Change(name, "set", container))
        for name, tensor, state in self._tensors.values():
            if state.written(tensor):
                found.append(Change(name, "written", tensor))
        return found

    def restore(self) -> None:
        for _, module, kind, before in self._modules.values():
            if type(module) is not kind:
                module.__class__ = kind
            if _differences("", before, module.__dict__):
                module.__dict__.clear()
                module.__dict__.update(before)
        for _, container, before in self._containers.values():
            if isinstance(container, (dict, set)):
                if isinstance(container, set) or _differences("", before, container) or list(before) != list(container):
                    container.clear()
                    container.update(before)
            elif len(before) != len(container) or any(a is not b for a, b in zip(before, container, strict=True)):
                container.clear()
                container.extend(before)
        for _, tensor, state in self._tensors.values():
            state.restore(tensor)


class _TensorState:
    """Data, gradient, flags and Python attributes of one tensor. Tensor subclasses keep their identity only."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.data: torch.Tensor | None = None
        self.attributes = dict(tensor.__dict__)
        self.hooks = [(hooks, dict(hooks)) for hooks in gradient_hook_tables(tensor)]
        if type(tensor) in _PLAIN:
            with suppress(RuntimeError, NotImplementedError):
                self.alias = tensor.detach()
                self.data = self.alias.clone()
        self.was_leaf = tensor.is_leaf
        if self.was_leaf:
            self.requires_grad, self.grad = tensor.requires_grad, tensor.grad

    def written(self, tensor: torch.Tensor) -> bool:
        if self.data is None or tensor.is_meta:
            return False
        try:
            return not equal_bits(self.data, tensor.detach())
        except (RuntimeError, NotImplementedError):
            return False

    def restore(self, tensor: torch.Tensor) -> None:
        if self.data is not None:
            if tensor.layout == torch.strided and tensor.data_ptr() != self.alias.data_ptr():
                tensor.data = self.alias
            if tensor.grad_fn is not None and self.was_leaf:
                tensor.detach_()  # a forward in training wrote something with a graph into this buffer
            if self.written(tensor):
                with torch.no_grad():
                    self.alias.copy_(self.data)
        if tensor.__dict__ != self.attributes:
            tensor.__dict__.clear()
            tensor.__dict__.update(self.attributes)
        for hooks, before in self.hooks:
            hooks.clear()
            hooks.update(before)
        if tensor.is_leaf and self.was_leaf:
            tensor.grad = self.grad
            if tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)


@contextmanager
def preserved(model: nn.Module) -> Iterator[Preserved]:
    """Within the block ``model`` may be changed in any way; after it, it is what it was.

    Covers every module, attribute, container and tensor reachable from it: data, modes, hooks, gradients, classes,
    Python counters, caches, instance-patched methods. Costs one copy of the tensor data.
    """
    state = Preserved(model)
    try:
        yield state
    finally:
        state.restore()


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same shape, dtype and values; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    if a.is_meta or torch.equal(a, b):
        return True
    return bool((a.is_floating_point() or a.is_complex()) and ((a == b) | (a.isnan() & b.isnan())).all())


def _join(prefix: str, key: object) -> str:
    if key in ("_parameters", "_buffers", "_modules"):
        return prefix
    return f"{prefix}.{key}" if prefix else str(key)


def _items(name: str, container: Any) -> list[tuple[str, Any]]:
    if isinstance(container, dict):
        return [(_join(name, key), value) for key, value in container.items()]
    return [(f"{name}[{position}]", value) for position, value in enumerate(container)]


def _differences(name: str, before: dict[Any, Any], now: dict[Any, Any]) -> list[Change]:
    if before.keys() == now.keys() and all(_same(before[key], now[key]) for key in before):
        return []
    added = [Change(_join(name, key), "added", now[key]) for key in now if key not in before]
    removed = [Change(_join(name, key), "removed") for key in before if key not in now]
    return [
        Change(_join(name, key), "set", now[key]) for key in before if key in now and not _same(before[key], now[key])
    ] + added + removed


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str, bytes)) and a == b)
