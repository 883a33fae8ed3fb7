"""A module as statements that build it again: its classes and attributes, with ones for weights."""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections import Counter, OrderedDict, defaultdict
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from pytest_exportready.reproduce.definitions import Definitions, Unreproducible

_OF_EVERY_MODULE = frozenset(nn.Module().__dict__) - {"training"}
_PLAIN = (type(None), bool, int, str, bytes, complex)
DEEPEST = 20
"""Values nested deeper than this are not written."""

HOLLOW = '''\
def hollow(kind, /, **state):
    """An object of this class in this state, without running its __init__."""
    made = kind.__new__(kind)
    if isinstance(made, torch.nn.Module):
        torch.nn.Module.__init__(made)
    made.__dict__.update(state)
    return made'''


class Skeleton:
    """statements: build every module that was written, in order. definitions: what they need."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.definitions = Definitions(self.text)
        self._variables: dict[int, str] = {}
        self._taken: Counter[str] = Counter()
        self._kept: list[Any] = []  # so that no id is given twice

    def text(self, value: Any, depth: int = 0) -> str:
        """The expression for ``value``; statements for modules and shared tensors in it. Raises Unreproducible."""
        if depth > DEEPEST:
            raise Unreproducible("values are nested too deeply")
        if isinstance(value, enum.Enum):
            return f"{self.definitions.name_of(type(value))}.{value.name}"
        if type(value) in _PLAIN:
            return repr(value)
        if type(value) is float:
            return repr(value) if abs(value) < float("inf") else f'float("{value}")'
        if isinstance(value, nn.Module):
            return self.module(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if isinstance(value, (type, FunctionType)) or inspect.isbuiltin(value):
            return self.definitions.name_of(value)
        return self._composed(value, depth + 1)

    def _composed(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind in (tuple, list, set, frozenset, torch.Size):
            inner = ", ".join(self.text(item, depth) for item in value)
            if kind is tuple:
                return f"({inner},)" if len(value) == 1 else f"({inner})"
            return f"[{inner}]" if kind is list else f"{self.definitions.name_of(kind)}([{inner}])"
        if kind in (dict, OrderedDict, defaultdict):
            return f"{{{', '.join(f'{self.text(k, depth)}: {self.text(v, depth)}' for k, v in value.items())}}}"
        if kind is slice:
            return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
        if kind is functools.partial:
            self.definitions.imports["import functools"] = None
            given = [self.text(item, depth) for item in (value.func, *value.args)]
            given += [f"{key}={self.text(item, depth)}" for key, item in value.keywords.items()]
            return f"functools.partial({', '.join(given)})"
        for hint in ("AUTO", "DYNAMIC", "STATIC"):
            if value is getattr(Dim, hint, None):
                return f"torch.export.Dim.{hint}"
        if isinstance(value, Dim) and kind.__name__ == "Dim":
            bounds = [f"{key}={getattr(value, key)}" for key in ("min", "max") if isinstance(getattr(value, key), int)]
            return f"torch.export.Dim({', '.join([repr(value.__name__), *bounds])})"
        of_own_form = getattr(kind, "__reduce_ex__", None) is not object.__reduce_ex__
        if hasattr(value, "__dict__") and not of_own_form and not callable(value):
            state = [f"{key}={self.text(item, depth)}" for key, item in vars(value).items() if key.isidentifier()]
            return f"hollow({', '.join([self.definitions.name_of(kind), *state])})"
        raise Unreproducible(f"a {kind.__module__}.{kind.__qualname__} cannot be written as source")

    def module(self, module: nn.Module, path: str = "model") -> str:
        """The variable that holds ``module``, built by statements. Raises Unreproducible."""
        if id(module) in self._variables:
            return self._variables[id(module)]
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            if module.__dict__.get(name):
                raise Unreproducible(f"{path} has hooks")
        kind = self.definitions.name_of(type(module))
        variable = self._variable(module, path)
        state = {key: value for key, value in module.__dict__.items() if key not in _OF_EVERY_MODULE}
        modules = {key: value for key, value in state.items() if isinstance(value, nn.Module)}
        written = []
        for key, value in state.items():
            if key in modules:
                continue
            try:
                written.append((key, self.text(value)))
            except Unreproducible as reason:
                raise Unreproducible(f"{path}.{key}: {reason}") from None
        given = [f"{key}={text}" for key, text in written if key.isidentifier()]
        self.statements.append(f"{variable} = hollow({', '.join([kind, *given])})")
        self._tensors_of(module, variable)
        for name, child in module._modules.items():
            built = "None" if child is None else self.module(child, f"{path}.{name}")
            self.statements.append(f"{variable}.add_module({name!r}, {built})")
        return variable

    def _tensors_of(self, module: nn.Module, variable: str) -> None:
        for name, parameter in module._parameters.items():
            text = "None" if parameter is None else self.tensor(parameter)
            self.statements.append(f"{variable}.register_parameter({name!r}, {text})")
        for name, buffer in module._buffers.items():
            text = "None" if buffer is None else self.tensor(buffer)
            lasting = ", persistent=False" if name in module._non_persistent_buffers_set else ""
            self.statements.append(f"{variable}.register_buffer({name!r}, {text}{lasting})")

    def tensor(self, tensor: torch.Tensor) -> str:
        """A tensor of ones in floating point, else of zeros, of this shape and dtype; one variable for each tensor."""
        if id(tensor) in self._variables:
            return self._variables[id(tensor)]
        parameter = isinstance(tensor, nn.Parameter)
        if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout != torch.strided:
            raise Unreproducible(f"a {type(tensor).__name__} of layout {tensor.layout}")
        fill = "ones" if tensor.is_floating_point() or tensor.is_complex() else "zeros"
        dtype = "" if tensor.dtype == torch.float32 else f", dtype={tensor.dtype}"
        device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
        text = f"torch.{fill}({list(tensor.shape)}{dtype}{device})"
        if parameter:
            text = f"torch.nn.Parameter({text}{'' if tensor.requires_grad else ', requires_grad=False'})"
        variable = self._variable(tensor, "weight" if parameter else "tensor")
        self.statements.append(f"{variable} = {text}")
        return variable

    def _variable(self, value: Any, wish: str) -> str:
        name = re.sub(r"\W", "_", wish)
        self._taken[name] += 1
        chosen = name if self._taken[name] == 1 and not name.startswith(("weight", "tensor")) else ""
        self._variables[id(value)] = chosen or f"{name}_{self._taken[name]}"
        self._kept.append(value)
        return self._variables[id(value)]
