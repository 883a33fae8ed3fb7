"""The kinds of the results of calls: user functions are followed, those of torch are known."""

from __future__ import annotations

import ast
import math
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.source import operators
from pytest_exportready.analysis.source.abstract_values import (
    LOOSE,
    NUMBER,
    PYTHON,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Kind,
    Known,
    is_tensor,
    known,
    of_values,
)
from pytest_exportready.analysis.source.expressions import Expressions
from pytest_exportready.analysis.source.function_source import source_of
from pytest_exportready.analysis.source.static_attributes import source_text

_TO_NUMBER = (bool, int, float, complex)
_WHILE_EXPORTING = {
    "is_exporting": True,
    "is_compiling": True,
    "is_dynamo_compiling": False,
    "is_scripting": False,
    "is_tracing": False,
}
_GROWS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
_MUTATES = frozenset("append extend insert pop clear update setdefault add remove appendleft".split())  # noqa: SIM905


class Calls(Expressions):
    """Calls in one call of one function."""

    def on_call(self, node: ast.Call) -> Kind:
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        arguments = [self.kind(argument) for argument in node.args]
        keywords = {k.arg: self.kind(k.value) for k in node.keywords if k.arg}
        if isinstance(node.func, ast.Attribute):
            owner, name = self.kind(node.func.value), node.func.attr
            if is_tensor(owner):
                self.tensor_method(node, name, node.func.value)
                return self.torch_call(node, name, operators.method(name, len(arguments), owner), arguments)
            if isinstance(owner, Known) and _changes(owner.value, name):
                self.report(node, "state", f"`{source_text(node.func)}` changes an object that outlives the call")
        target = self.kind(node.func)
        if not isinstance(target, Known):
            return UNKNOWN
        return self.called(node, target.value, [] if starred else arguments, keywords)

    def tensor_method(self, node: ast.Call, name: str, owner: ast.expr) -> None:
        if name in ("backward", "requires_grad_"):
            self.report(node, "state", f"`{source_text(node)}` computes gradients")
        elif name.endswith("_") and isinstance(owner, ast.Attribute) and owner.attr == "data":
            self.report(node, "state", f"`{source_text(node)}` writes the data of a tensor")

    def called(self, node: ast.Call, target: Any, arguments: list[Kind], keywords: dict[str, Kind]) -> Kind:
        followed = self.followed(target, arguments, keywords)
        if followed is not None:
            return followed
        self.report_use(node, target, arguments)
        name = getattr(target, "__name__", "")
        if name in _WHILE_EXPORTING and str(getattr(target, "__module__", "")).startswith("torch"):
            return known(_WHILE_EXPORTING[name])
        if target in _BUILTINS or getattr(math, name, 0) is target:
            return _of_builtin(target, arguments)
        return self.torch_call(node, name, operators.function(target, len(arguments)), arguments[1:])

    def followed(self, target: Any, arguments: list[Kind], keywords: dict[str, Kind]) -> Kind | None:
        """Return the kind of the result of a module, method or function with readable source; None for any other."""
        if isinstance(target, nn.Module):
            return self.module(target, arguments, keywords)
        owner: Any = getattr(target, "__self__", None)
        applied = getattr(target, "__name__", "") == "apply" and isinstance(owner, type)
        if applied and issubclass(owner, torch.autograd.Function):
            return self.autograd_function(owner, arguments, keywords)
        if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
            return self.interpreter.call(target.__func__, [known(owner), *arguments], keywords, id(owner))
        if isinstance(target, FunctionType) and source_of(target) is not None:
            return self.interpreter.call(target, arguments, keywords)
        return None

    def report_use(self, node: ast.Call, target: Any, arguments: list[Kind]) -> None:
        """Report a call that needs tensor values in Python, or computes gradients."""
        if target in (torch.autograd.grad, torch.autograd.backward):
            self.report(node, "state", f"`{source_text(node)}` computes gradients")
        if str(getattr(target, "__module__", "")).split(".")[0] == "numpy" and any(map(is_tensor, arguments)):
            self.report(node, "number", f"`{source_text(node)}` passes a tensor to NumPy")
        if target in (min, max) and len(arguments) > 1 and any(map(of_values, arguments)):
            self.report(node, "branch", f"`{source_text(node)}` compares tensors in Python")
        if arguments and is_tensor(arguments[0]) and _to_number(target):
            self.report(node, "number", f"`{source_text(node)}` takes a Python number from a tensor")
        if target is range and any(map(of_values, arguments)):
            self.report(node, "number", f"`{source_text(node)}` takes the number of iterations from a tensor")

    def torch_call(self, node: ast.Call, name: str, gives: Kind, others: list[Kind]) -> Kind:
        if gives is UNKNOWN:
            return UNKNOWN
        if name in operators.VALUES:
            self.report(node, "number", f"`{source_text(node)}` takes values from a tensor")
        elif gives is LOOSE or (name == "repeat_interleave" and TENSOR in others):
            self.report(node, "size", f"`{source_text(node)}` has a size that depends on tensor values")
            return LOOSE
        return gives

    def autograd_function(self, function: type, arguments: list[Kind], keywords: dict[str, Kind]) -> Kind:
        forward: Any = vars(function).get("forward")
        forward = getattr(forward, "__func__", forward)
        context = [] if "setup_context" in vars(function) else [UNKNOWN]
        if not isinstance(forward, FunctionType):
            return UNKNOWN
        return self.interpreter.call(forward, [*context, *arguments], keywords)

    def module(self, module: nn.Module, arguments: list[Kind], keywords: dict[str, Kind]) -> Kind:
        forward = getattr(module.forward, "__func__", module.forward)
        if isinstance(forward, FunctionType) and source_of(forward) is not None:
            return self.interpreter.call(forward, [known(module), *arguments], keywords, id(module))
        single = type(module).__module__.startswith("torch.nn.modules") and not isinstance(
            module, (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Sequential)
        )
        if isinstance(module, nn.Sequential):
            kind = arguments[0] if arguments else UNKNOWN
            for part in module:
                kind = self.module(part, [kind], {})
            return kind
        return TENSOR if single and arguments and is_tensor(arguments[0]) else UNKNOWN


_SIZED = (len, isinstance, hasattr, range, str, repr, type)
_CONTAINERS = (list, tuple, enumerate, zip, sorted, reversed)
_BUILTINS = (*_TO_NUMBER, *_SIZED, *_CONTAINERS, min, max, sum)


def _to_number(target: Any) -> bool:
    return target in _TO_NUMBER or getattr(math, getattr(target, "__name__", ""), 0) is target


def _of_builtin(target: Any, arguments: list[Kind]) -> Kind:
    """Return the kind of the result of a builtin or a function of ``math``."""
    first = arguments[0] if arguments else UNKNOWN
    if target in (min, max) and len(arguments) > 1 and any(map(of_values, arguments)):
        return UNKNOWN
    if _to_number(target) and of_values(first):
        return NUMBER
    if target is len and first is LOOSE:
        return NUMBER
    if target in _SIZED:
        return PYTHON
    if target is sum and first is TENSORS:
        return TENSOR
    return first if target in (list, tuple) and first is TENSORS else UNKNOWN


def _changes(owner: Any, method: str) -> bool:
    return (
        method in _GROWS
        if isinstance(owner, nn.Module)
        else isinstance(owner, (list, dict, set)) and method in _MUTATES
    )
