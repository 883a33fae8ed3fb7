"""Write Python values as strings and tuples that are equal for equal values in another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType

import torch
from torch import nn

from pytest_exportready.analysis.execution.trial import NotCacheable
from pytest_exportready.analysis.program.tensor_hash import tensor_digest
from pytest_exportready.analysis.torch_internals.modules import plain_attributes

_PLAIN = (bool, int, str, bytes, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class CanonicalValues:
    """Canonical forms of values. A value inside itself is written as the number of levels up."""

    def __init__(self) -> None:
        self.modules: set[str] = set()  # that define the classes and functions among the values
        self._around: list[object] = []

    def of(self, value: Any, name: str) -> object:
        """Return the canonical form of ``value``.

        Raises:
            NotCacheable: It has none; the message contains ``name``.
        """
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, _PLAIN):
            return type(value).__name__, repr(value)
        for level, outer in enumerate(reversed(self._around)):
            if outer is value:
                return "above", level
        self._around.append(value)
        try:
            return self._compound(value, name)
        except RecursionError:
            raise NotCacheable(f"{name} is nested too deeply") from None
        finally:
            self._around.pop()

    def _compound(self, value: Any, name: str) -> object:
        if isinstance(value, torch.Tensor):
            strides = value.stride() if value.layout == torch.strided else ()
            return tensor_digest(value), value.requires_grad, strides
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, ReferenceType):
            return "weak", self.of(value(), name)
        if isinstance(value, (type, BuiltinFunctionType)):
            self.modules.add(str(value.__module__))
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, ModuleType):
            self.modules.add(value.__name__)
            return "module", value.__name__
        if isinstance(value, FunctionType):
            return self._function(value, name)
        if isinstance(value, CodeType):
            used = (value.co_code.hex(), value.co_names, value.co_varnames, value.co_freevars)
            return value.co_name, used, self.of(value.co_consts, name)
        if isinstance(value, MethodType):
            return self.of(value.__func__, name), type(value.__self__).__qualname__
        if isinstance(value, Mapping):
            items = [(self.of(k, name), self.of(v, f"{name}[{k!r}]")) for k, v in value.items()]
            return type(value).__name__, items
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [self.of(inner, f"{name}[{i}]") for i, inner in enumerate(value)]
        if isinstance(value, Set):
            return type(value).__name__, sorted(repr(self.of(inner, name)) for inner in value)
        return self._as_pickled(value, name)

    def _module(self, module: nn.Module) -> object:
        """Return classes, modes, tensors and plain values of ``module`` and its submodules."""
        lines: list[object] = []
        for name, inner in module.named_modules():
            self.modules.update(kind.__module__ for kind in type(inner).__mro__)
            values = plain_attributes(inner)
            attributes = [(key, self.of(value, f"{name}.{key}")) for key, value in sorted(values.items())]
            lines.append((name, self.of(type(inner), name), inner.training, attributes))
        tensors = [(name, tensor_digest(t)) for name, t in (*module.named_parameters(), *module.named_buffers())]
        return lines, tensors

    def _function(self, function: FunctionType, name: str) -> object:
        """Return name, code, closure and defaults; two lambdas in one line have the same name."""
        self.modules.add(str(function.__module__))
        held = [_content(cell) for cell in function.__closure__ or ()]
        made_of = (function.__code__, held, function.__defaults__, function.__kwdefaults__, vars(function))
        return f"{function.__module__}.{function.__qualname__}", self.of(made_of, f"a value inside {name}")

    def _as_pickled(self, value: object, name: str) -> object:
        """Return what ``pickle`` would write of ``value``."""
        try:
            made_of = value.__reduce_ex__(2)
        except Exception as error:
            raise NotCacheable(f"{name} is a {type(value).__name__}, which cannot be pickled") from error
        if isinstance(made_of, str):
            return made_of
        make, arguments, *rest = made_of
        parts = [list(part) if isinstance(part, Iterator) else part for part in rest]
        return self.of(type(value), name), self.of(make, name), self.of((arguments, parts), name)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty cell"
