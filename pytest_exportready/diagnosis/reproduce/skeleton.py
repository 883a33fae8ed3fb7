"""A module as statements that build it again: its classes and attributes, with weights of ones."""

from __future__ import annotations

import enum
import inspect
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from pytest_exportready.analysis.torch_internals.operators import is_custom_operator
from pytest_exportready.diagnosis.reproduce import source, values
from pytest_exportready.diagnosis.reproduce.definitions import Definitions
from pytest_exportready.diagnosis.reproduce.origin import Unreproducible, is_project_module, is_python_module
from pytest_exportready.diagnosis.reproduce.statements import Statements

_OF_EVERY_MODULE = frozenset(nn.Module().__dict__) - {"training"}
_BARE = frozenset({"torch.nn.modules.module", "builtins", "typing", "abc"})
"""Modules of base classes whose methods read no attribute that must be kept."""
_HOOKS = {
    "_forward_hooks": "register_forward_hook",
    "_forward_pre_hooks": "register_forward_pre_hook",
    "_backward_hooks": "register_full_backward_hook",
    "_backward_pre_hooks": "register_full_backward_pre_hook",
}
DEEPEST = 20
"""Values nested deeper than this are not written."""

HOLLOW = '''\
def weight(*shape, **options):
    return torch.nn.Parameter(torch.ones(shape), **options)


def hollow(kind, weights={}, /, **state):
    """An object of this class in this state, without running its __init__."""
    made = kind.__new__(kind)
    if isinstance(made, torch.nn.Module):
        torch.nn.Module.__init__(made)
        state = {"training": False, **state}
    for name, weight in weights.items():
        made.register_parameter(name, weight)
    if state:
        vars(made).update(state)
    return made'''


class Skeleton:
    """Collect the statements that build modules, and the definitions that they need."""

    def __init__(self) -> None:
        self.statements = Statements()
        self.definitions = Definitions(self.text, self.statements.define)
        self._variables: dict[int, str] = {}
        self._taken: Counter[str] = Counter()
        self._kept: list[Any] = []  # so that no id is used twice
        self._depth = 0

    def text(self, value: Any) -> str:
        """Return the expression for ``value``; add statements for modules and tensors in it. Raise Unreproducible."""
        if self._depth > DEEPEST:
            raise Unreproducible("values are nested too deeply")
        self._depth += 1
        try:
            return self._text(value)
        finally:
            self._depth -= 1

    def _text(self, value: Any) -> str:
        if id(value) in self._variables:
            return self._variables[id(value)]
        if isinstance(value, nn.Module):
            return self.module(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, enum.Enum):
            return f"{self.definitions.name_of(type(value))}({self.text(value.value)})"
        plain = values.literal(value)
        if plain is not None:
            return plain
        if isinstance(value, MethodType):
            return f"{self.text(value.__self__)}.{value.__func__.__name__}"
        if isinstance(value, weakref.ref):
            self.definitions.imports["import weakref"] = None
            return f"weakref.ref({self.text(value())})"
        if isinstance(value, (type, FunctionType)) or inspect.isroutine(value) or is_custom_operator(value):
            return self.definitions.name_of(value)
        found = values.written(self._finished(value), self.text, self.definitions.imports)
        return self._object(value) if found is None else found

    def _finished(self, value: Any) -> Any:
        """Return a container without classes that are being written, which have registered themselves in it."""
        if type(value) is dict:
            return {key: item for key, item in value.items() if not self.definitions.is_unfinished(item)}
        if type(value) is list:
            return [item for item in value if not self.definitions.is_unfinished(item)]
        return value

    def _object(self, value: Any) -> str:
        kind = type(value)
        own_form = any(getattr(kind, name) is not getattr(object, name) for name in ("__reduce_ex__", "__reduce__"))
        if own_form or isinstance(value, BaseException) or is_python_module(kind.__module__):
            raise Unreproducible(f"a {kind.__module__}.{kind.__qualname__} cannot be written as source")
        name = self.definitions.name_of(kind)
        variable = self._variable(value, re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower())
        self._build(variable, name, self._kept_state(value, getattr(value, "__dict__", {})), kind.__name__)
        for key, item in self._kept_state(value, dict(_slots(value))).items():
            self.statements.add(f"object.__setattr__({variable}, {key!r}, {self.text(item)})")
        return variable

    def _build(self, variable: str, kind: str, state: dict[str, Any], path: str) -> None:
        """Add the statements that build an object: simple attributes as arguments, others after what they need."""
        made = self.statements.reserve()
        given = [kind]
        for key, value in state.items():
            before = len(self.statements)
            try:
                text = self.text(value)
            except Unreproducible as reason:
                raise Unreproducible(f"{path}.{key}: {reason}") from None
            simple = len(self.statements) == before and not set(re.findall(r"\w+", text)) & {*self._variables.values()}
            if simple and key.isidentifier():
                given.append(f"{key}={text}")
            else:
                self.statements.add(f"vars({variable})[{key!r}] = {text}")
        self.statements.fill(made, f"{variable} = hollow({', '.join(given)})")

    def _kept_state(self, owner: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state without attributes that nothing reads: not needed to fail, and possibly private."""
        if type(owner).__module__.startswith("torch.nn.modules."):
            known = source.identifiers_of_module(type(owner).__module__)
            return {key: value for key, value in state.items() if key in known or self.definitions.reads(key)}
        bases = [kind for kind in type(owner).__mro__ if kind.__module__ not in _BARE]
        if not all(is_project_module(kind.__module__) for kind in bases):
            return state
        return {key: value for key, value in state.items() if key == "training" or self.definitions.reads(key)}

    def module(self, module: nn.Module, path: str = "model") -> str:
        """Add the statements that build ``module`` and return its variable. Raise Unreproducible."""
        if id(module) in self._variables:
            return self._variables[id(module)]
        bare = parametrize.is_parametrized(module)
        kind = self.definitions.name_of(type(module).__mro__[1] if bare else type(module))
        variable = self._variable(module, path)
        state = {key: value for key, value in module.__dict__.items() if key not in _OF_EVERY_MODULE}
        if not state.get("training"):
            state.pop("training", None)
        weights = {name: "None" if one is None else self.tensor(one) for name, one in module._parameters.items()}
        entries = ", ".join(f"{name!r}: {text}" for name, text in weights.items())
        self._build(variable, f"{kind}, {{{entries}}}" if entries else kind, self._kept_state(module, state), path)
        self._buffers_of(module, variable)
        for name, child in module._modules.items():
            if bare and name == "parametrizations":
                self._parametrize(module, variable, f"{path}.{name}")
                continue
            built = "None" if child is None else self.module(child, f"{path}.{name}")
            self.statements.add(f"{variable}.add_module({name!r}, {built})")
        self._hooks_of(module, variable, path)
        return variable

    def _parametrize(self, module: nn.Module, variable: str, path: str) -> None:
        for name, stages in module.parametrizations.items():  # type: ignore[operator, union-attr]
            whole = nn.Parameter(torch.empty_like(getattr(module, name)))
            self.statements.add(f"{variable}.register_parameter({name!r}, {self.tensor(whole)})")
            self.definitions.imports["import torch.nn.utils.parametrize"] = None
            for stage in stages:
                given = f"{variable}, {name!r}, {self.module(stage, path)}, unsafe=True"
                self.statements.add(f"torch.nn.utils.parametrize.register_parametrization({given})")

    def _hooks_of(self, module: nn.Module, variable: str, path: str) -> None:
        for table, register in _HOOKS.items():
            with_kwargs = module.__dict__.get(f"{table}_with_kwargs", {})
            for number, hook in module.__dict__.get(table, {}).items():
                try:
                    given = self.text(hook) + (", with_kwargs=True" if with_kwargs.get(number) else "")
                except Unreproducible as reason:
                    raise Unreproducible(f"{path} has a hook: {reason}") from None
                self.statements.add(f"{variable}.{register}({given})")

    def _buffers_of(self, module: nn.Module, variable: str) -> None:
        for name, buffer in module._buffers.items():
            text = "None" if buffer is None else self.tensor(buffer)
            lasting = ", persistent=False" if name in module._non_persistent_buffers_set else ""
            self.statements.add(f"{variable}.register_buffer({name!r}, {text}{lasting})")

    def tensor(self, tensor: torch.Tensor) -> str:
        """Add a tensor of this shape and dtype, of ones if floating point, else zeros; return its variable."""
        if id(tensor) in self._variables:
            return self._variables[id(tensor)]
        parameter = isinstance(tensor, nn.Parameter)
        if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout != torch.strided:
            raise Unreproducible(f"a {type(tensor).__name__} of layout {tensor.layout}")
        fill = "ones" if tensor.is_floating_point() or tensor.is_complex() else "zeros"
        dtype = "" if tensor.dtype == torch.float32 else f", dtype={tensor.dtype}"
        device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
        text = f"torch.{fill}({list(tensor.shape)}{dtype}{device})"
        if parameter and text == f"torch.ones({list(tensor.shape)})":
            given = [*map(str, tensor.shape), *([] if tensor.requires_grad else ["requires_grad=False"])]
            text = f"weight({', '.join(given)})"
        elif parameter:
            text = f"torch.nn.Parameter({text}{'' if tensor.requires_grad else ', requires_grad=False'})"
        variable = self._variable(tensor, "weight" if parameter else "tensor")
        self.statements.add(f"{variable} = {text}")
        return variable

    def _variable(self, value: Any, wish: str) -> str:
        name = re.sub(r"\W", "_", wish)
        chosen = name if name == "model" or not name.startswith(("weight", "tensor")) else f"{name}_1"
        while chosen in self._variables.values() or (chosen != "model" and self.definitions.is_taken(chosen)):
            self._taken[name] += 1
            chosen = f"{name}_{self._taken[name]}"
        self.definitions.take(chosen)
        self.statements.variables.add(chosen)
        self._variables[id(value)] = chosen
        self._kept.append(value)
        return chosen

    def classes(self, modules: Iterable[nn.Module]) -> None:
        """Write the classes first: what they read decides which attributes are kept. Raise Unreproducible."""
        for module in modules:
            kind = type(module)
            self.definitions.name_of(kind.__mro__[1] if parametrize.is_parametrized(module) else kind)


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
