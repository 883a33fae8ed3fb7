"""Whether code is pure, so that it may be evaluated in another order or although a branch is not taken.

Nothing is run to find out. What is not known to be pure is not.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.source import operators
from pytest_exportready.analysis.source.abstract_values import UNKNOWN, Kind, Known, known
from pytest_exportready.analysis.source.function_source import Source, source_of
from pytest_exportready.analysis.source.static_attributes import attribute_of
from pytest_exportready.analysis.torch_internals.hooks import forward_hooks

# Defined, with finite gradients, for every finite input: the side that is not chosen does no harm.
_EVERYWHERE = frozenset(
    "abs add neg mul sub sum mean amax amin max min maximum minimum relu sigmoid tanh clamp sin cos square gelu silu"  # noqa: SIM905
    " leaky_relu elu clone detach float double half bfloat16 to type_as where zeros_like ones_like full_like new_zeros"
    " new_ones softplus round floor ceil sign logical_not logical_and logical_or isnan isfinite isinf any all".split()
)
_PURE_BUILTINS = (len, isinstance, range, tuple, list, zip, enumerate, float, int, bool, abs, min, max)
_RANDOM = frozenset(
    "bernoulli multinomial normal poisson dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"  # noqa: SIM905
    " feature_dropout native_dropout rrelu gumbel_softmax fractional_max_pool2d fractional_max_pool3d".split()
)
_IMPURE = frozenset("backward register_hook retain_grad apply map resize resize_as pin_memory share_memory".split())  # noqa: SIM905
_NODES = (
    ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Subscript,
    ast.Slice, ast.Tuple, ast.List, ast.Starred, ast.IfExp, ast.BoolOp, ast.expr_context, ast.operator, ast.unaryop,
    ast.cmpop, ast.boolop, ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.Pass, ast.If, ast.For,
)  # fmt: skip
_SIMPLE = (
    ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.expr_context,
    ast.Add, ast.Sub, ast.Mult, ast.unaryop, ast.cmpop, ast.BoolOp, ast.boolop,
)  # fmt: skip


@dataclass(frozen=True)
class Purity:
    """Decide for code at one place in one function."""

    source: Source
    scope: Mapping[str, Kind]  # the kinds of the names at this place
    inside: frozenset[int] = field(default=frozenset())  # functions being examined

    def everywhere(self, node: ast.expr) -> bool:
        """Return whether ``node`` is pure, cheap, and defined for every input, so that ``torch.where`` may take it."""
        return self.pure(node) and all(
            isinstance(part, _SIMPLE) and (not isinstance(part, ast.Call) or self._name(part) in _EVERYWHERE)
            for part in ast.walk(node)
        )

    def pure(self, *nodes: ast.AST) -> bool:
        """Return whether the nodes read names, tensors and modules, and change none."""
        return all(self._harmless(part) for node in nodes for part in ast.walk(node))

    def _harmless(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return isinstance(node.ctx, ast.Load) and (isinstance(node, ast.Subscript) or self._reads(node))
        return self._call(node) if isinstance(node, ast.Call) else isinstance(node, _NODES)

    def _reads(self, node: ast.Attribute) -> bool:
        """Return whether the attribute is not a property, which would run user code."""
        owner = self.value(node.value)
        return owner is None or not isinstance(getattr(type(owner.value), node.attr, None), property)

    def value(self, node: ast.AST) -> Known | None:
        """Return the known object that ``node`` evaluates to; None if unknown."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            kind = attribute_of(owner.value, node.attr) if owner else UNKNOWN
        elif isinstance(node, ast.Name):
            found, value = self.source.outer(node.id)
            kind = self.scope.get(node.id, UNKNOWN if node.id in self._locals else known(value) if found else UNKNOWN)
        else:
            return None
        return kind if isinstance(kind, Known) else None

    @property
    def _locals(self) -> tuple[str, ...]:
        return self.source.function.__code__.co_varnames

    def _name(self, node: ast.Call) -> str:
        return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")

    def _call(self, node: ast.Call) -> bool:
        if any(keyword.arg in ("out", "inplace", None) for keyword in node.keywords):
            return False
        target = self.value(node.func)
        if target is not None:
            return self._object(target.value, len(node.args))
        return (
            isinstance(node.func, ast.Attribute)
            and _is_pure_name(node.func.attr)
            and hasattr(torch.Tensor, node.func.attr)
        )

    def _object(self, target: Any, arguments: int) -> bool:
        if isinstance(target, nn.Module):
            return self._module(target)
        if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
            return self._function(target.__func__, known(target.__self__))
        if any(target is harmless for harmless in _PURE_BUILTINS):
            return True
        if isinstance(target, FunctionType) and source_of(target) is not None:
            return self._function(target)
        name = getattr(target, "__name__", "")
        return _is_pure_name(name) and operators.function(target, arguments) is not UNKNOWN

    def _module(self, module: nn.Module) -> bool:
        if module.training or getattr(module, "inplace", False) or forward_hooks(module):
            return False
        own = getattr(module.forward, "__func__", module.forward)
        known_class = type(module).__module__.startswith("torch.nn.modules")
        return all(map(self._module, module.children())) and (known_class or self._function(own, known(module)))

    def _function(self, function: Any, owner: Kind | None = None) -> bool:
        source = source_of(function) if isinstance(function, FunctionType) else None
        if source is None or id(source) in self.inside or source.tree.decorator_list:
            return False
        first = [argument.arg for argument in source.tree.args.args[:1]]
        scope = dict.fromkeys(first, owner) if owner is not None else {}
        inner = Purity(source, {name: kind for name, kind in scope.items() if kind}, self.inside | {id(source)})
        return inner.pure(*source.tree.body)


def _is_pure_name(name: str) -> bool:
    """Return whether the torch function of this name has no side effect, randomness or Python number as result."""
    impure = name in _RANDOM or name in _IMPURE or name in operators.VALUES or name in operators.SIZED_BY_VALUES
    return not (impure or name.endswith("_") or name.startswith(("rand", "set_", "manual_seed", "seed")))
