"""Record a module and restore it exactly, whatever trains, runs or traces it in between.

Only tensor data is copied: ``copy.deepcopy`` can be wrong (a copy may be in another mode, a ``forward`` patched on the
instance stays bound to the original) or fail, so the user's own module is used and then restored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.sharding import Gathered
from pytest_exportready.analysis.torch_internals.cuda import why_cuda_is_lost
from pytest_exportready.analysis.torch_internals.hooks import gradient_hook_tables

# What reading or comparing tensors without ordinary data (fake, lazy, sharded, sparse ...) raises.
_NO_DATA = (RuntimeError, NotImplementedError, ValueError, TypeError)
_ATOMS = frozenset({bool, int, float, str, type(None)})
_NO_STATE = (type, FunctionType, MethodType, ModuleType)


@dataclass(frozen=True)
class Change:
    """One difference from the recorded state."""

    where: str  # qualified name of the attribute
    what: str  # ``written`` (tensor data), ``set``, ``added`` or ``removed``
    now: Any = None  # the current value of the attribute; the tensor for ``written``


class Snapshot:
    """The state of a module at one moment; see ``preserved``."""

    def __init__(self, model: nn.Module) -> None:
        self._objects: dict[int, tuple[str, Any, type, dict[str, Any]]] = {}
        self._containers: dict[int, tuple[str, Any, Any]] = {}
        self._tensors: dict[int, tuple[str, torch.Tensor, _TensorState]] = {}
        self._owners = {type(module).__module__.split(".")[0] for module in model.modules()} - {"torch"}
        self._gathered = Gathered(model)
        self._record(model)

    def _record(self, model: nn.Module) -> None:
        pending: deque[tuple[str, Any]] = deque([("", model)])
        while pending:
            name, value = pending.popleft()
            if isinstance(value, torch.Tensor):
                if id(value) not in self._tensors:
                    self._tensors[id(value)] = (name, value, _TensorState(value))
                    pending.extend(_behind(name, value))
            elif isinstance(value, (dict, list, set, deque)):
                if id(value) not in self._containers:
                    self._containers[id(value)] = (name, value, _shallow(value))
                    pending.extend(_items(name, value))
            elif isinstance(value, tuple):
                pending.extend(_items(name, value))
            if (isinstance(value, nn.Module) or self._is_users(value)) and id(value) not in self._objects:
                self._objects[id(value)] = (name, value, type(value), dict(value.__dict__))
                pending.extend(_items(name, value.__dict__))

    def _is_users(self, value: object) -> bool:
        """Return whether the class is from a package of the modules, such as a cache or a counter."""
        if not hasattr(value, "__dict__") or isinstance(value, (torch.Tensor, *_NO_STATE)):
            return False
        return type(value).__module__.split(".")[0] in self._owners

    def changes(self) -> list[Change]:
        """Return what differs from the recorded state."""
        found = []
        for name, item, _, before in self._objects.values():
            found += _differences(name, before, item.__dict__)
        for name, container, before in self._containers.values():
            if isinstance(container, dict):
                found += _differences(name, before, container)
            elif _reordered(before, container):
                found.append(Change(name, "set", container))
        for name, tensor, state in self._tensors.values():
            if state.written(tensor):
                found.append(Change(name, "written", tensor))
        return found

    def restore(self) -> None:
        """Restore everything. An exception is raised only at the end, when everything else is restored."""
        self._gathered.restore()
        failures: list[Exception] = []
        for _, item, kind, before in self._objects.values():
            if type(item) is not kind:
                item.__class__ = kind
            if _differences("", before, item.__dict__):
                item.__dict__.clear()
                item.__dict__.update(before)
        for _, container, before in self._containers.values():
            if _reordered(before, container) or (isinstance(container, dict) and _differences("", before, container)):
                container.clear()
                (container.update if isinstance(container, (dict, set)) else container.extend)(before)
        for name, tensor, state in self._tensors.values():
            try:
                state.restore(tensor)
            except Exception as error:
                failures.append(RuntimeError(f"{name} cannot be restored: {error}"))
        if failures and not why_cuda_is_lost():  # then nothing of the module can be read, either
            raise failures[0]


class _TensorState:
    """Data, gradient, flags and Python attributes of one tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.kind = type(tensor)
        self.attributes = dict(tensor.__dict__)
        self.hooks = [(table, dict(table)) for table in gradient_hook_tables(tensor)]
        self.data: torch.Tensor | None = None
        self.bytes = 0
        if not hasattr(tensor, "__tensor_flatten__"):  # what such a class wraps is recorded instead
            with suppress(*_NO_DATA):
                self.alias = tensor.detach()
                self.data = self.alias.clone()
                if tensor.layout == torch.strided:
                    self.bytes = self.alias.untyped_storage().nbytes()
        self.was_leaf = tensor.is_leaf
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if self.was_leaf else None

    def written(self, tensor: torch.Tensor) -> bool:
        if self.data is None or tensor.is_meta:
            return False
        try:
            return not equal_bits(self.data, tensor.detach())
        except _NO_DATA:
            return False

    def restore(self, tensor: torch.Tensor) -> None:
        if type(tensor) is not self.kind:
            tensor.__class__ = self.kind
        if self.data is not None:
            self._restore_data(tensor, self.data)
        if _differences("", self.attributes, tensor.__dict__):
            tensor.__dict__.clear()
            tensor.__dict__.update(self.attributes)
        for (own, before), now in zip(self.hooks, gradient_hook_tables(tensor), strict=True):
            for table in (own, now):
                table.clear()
                table.update(before)
        if self.was_leaf:
            if tensor.grad is not self.grad:
                tensor.grad = self.grad
            if tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)

    def _restore_data(self, tensor: torch.Tensor, data: torch.Tensor) -> None:
        if self.bytes and self.alias.untyped_storage().nbytes() < self.bytes:
            self.alias.untyped_storage().resize_(self.bytes)
        if self.was_leaf and tensor.grad_fn is not None:
            tensor.detach_()  # a forward in training wrote something with a graph into this buffer
        if tensor.layout == torch.strided and not _same_memory(tensor, self.alias):
            tensor.data = self.alias
        if not tensor.is_meta and not _certainly_equal(data, self.alias):
            with torch.no_grad():
                whole = tuple(slice(0, 1) if _repeats(self.alias, d) else slice(None) for d in range(data.dim()))
                (self.alias[whole] if tensor.layout == torch.strided else self.alias).copy_(
                    data[whole] if tensor.layout == torch.strided else data
                )


@contextmanager
def preserved(model: nn.Module) -> Iterator[Snapshot]:
    """Within the block ``model`` may be changed in any way; after it, ``model`` is as before.

    Covers every module, attribute, container and tensor reachable from it, and objects of user classes: data, modes,
    hooks, gradients, classes, Python counters, caches, methods patched on the instance. Costs one copy of the tensor
    data.
    """
    state = Snapshot(model)
    try:
        yield state
    finally:
        state.restore()


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether shape, dtype and values are the same; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    if a.is_meta:
        return True
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    elif a.is_floating_point() and a.element_size() == 1:
        a, b = a.float(), b.float()  # float8 has few operators
    if torch.equal(a, b):
        return True
    return bool((a.is_floating_point() or a.is_complex()) and ((a == b) | (a.isnan() & b.isnan())).all())


def _certainly_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        return equal_bits(a, b)
    except _NO_DATA:
        return False


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    layouts = [(t.data_ptr(), t.dtype, t.shape, t.stride(), t.storage_offset(), t.device) for t in (a, b)]
    return layouts[0] == layouts[1]


def _repeats(tensor: torch.Tensor, dim: int) -> bool:
    return tensor.layout == torch.strided and tensor.stride(dim) == 0 and tensor.shape[dim] > 1


def _behind(name: str, tensor: torch.Tensor) -> list[tuple[str, Any]]:
    """Return tensors that belong to a tensor: gradient, attributes, what a class such as DTensor wraps."""
    found = [(_join(name, key), value) for key, value in tensor.__dict__.items()]
    if hasattr(tensor, "__tensor_flatten__"):
        found += [(_join(name, key), getattr(tensor, key)) for key in tensor.__tensor_flatten__()[0]]
    if tensor.is_leaf and tensor.grad is not None:
        found.append((_join(name, "grad"), tensor.grad))
    return found


def _join(prefix: str, key: object) -> str:
    if isinstance(key, str) and key in ("_parameters", "_buffers", "_modules"):
        return prefix
    return f"{prefix}.{key}" if prefix else str(key)


def _items(name: str, container: Any) -> list[tuple[str, Any]]:
    if isinstance(container, dict):
        return [(_join(name, key), value) for key, value in container.items() if type(value) not in _ATOMS]
    return [(f"{name}[{position}]", value) for position, value in enumerate(container) if type(value) not in _ATOMS]


def _shallow(container: Any) -> Any:
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _reordered(before: Any, now: Any) -> bool:
    """Return whether the items of a list or set, or the keys of a dict, are different or in another order."""
    if isinstance(now, (set, frozenset)):
        return bool(before != now)
    return len(before) != len(now) or any(not _same(a, b) for a, b in zip(before, now, strict=True))


def _differences(name: str, before: dict[Any, Any], now: dict[Any, Any]) -> list[Change]:
    if before.keys() == now.keys() and all(_same(before[key], now[key]) for key in before):
        return []
    added = [Change(_join(name, key), "added", now[key]) for key in now if key not in before]
    removed = [Change(_join(name, key), "removed") for key in before if key not in now]
    return (
        [Change(_join(name, key), "set", now[key]) for key in before if key in now and not _same(before[key], now[key])]
        + added
        + removed
    )


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str, bytes)) and a == b)
