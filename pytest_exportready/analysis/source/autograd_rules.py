"""Violations of the rules of ``torch.autograd.Function`` in its source."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType

Violation = tuple[str, int, str]  # file, line, words
_VIEWS = frozenset("view reshape t transpose permute squeeze unsqueeze narrow expand select".split())  # noqa: SIM905


_METHODS = ("forward", "setup_context", "backward", "vjp")


def violations(function: type) -> list[Violation]:
    """Return the violations in the order of lines; empty if the class has no source."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError):
        return []
    ast.increment_lineno(tree, first - 1)
    found: set[tuple[int, str]] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in _METHODS:
            method = _Method(node, _numpy_names(function), split="setup_context" in vars(function))
            found.update(method.violations())
    return [(file, line, words) for line, words in sorted(found)]


def _numpy_names(function: type) -> frozenset[str]:
    """Return the names in the file of ``function`` that stand for NumPy or its members."""
    known = vars(sys.modules.get(function.__module__, object))
    return frozenset(name for name, value in known.items() if _owner(value).split(".")[0] == "numpy")


def _owner(value: object) -> str:
    return str(getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", ""))


class _Method:
    """One method. ``tensors`` are names of tensor arguments, ``saved`` names of saved tensors."""

    def __init__(self, tree: ast.FunctionDef, numpy: frozenset[str], *, split: bool) -> None:
        self.tree, self.name, self.numpy = tree, tree.name, numpy
        parameters = [argument.arg for argument in tree.args.args]
        with_ctx = self.name != "forward" or not split
        self.ctx = parameters[0] if with_ctx and parameters else ""
        given = parameters[1:] if with_ctx else parameters
        self.tensors = set(given[:1]) if self.name == "forward" else set()
        self.tensors |= {a.arg for a in tree.args.args if a.annotation and "Tensor" in ast.unparse(a.annotation)}
        self.saved = {name for node in ast.walk(tree) for name in self._unpacked(node)}
        self.marks = any(isinstance(node, ast.Attribute) and node.attr == "mark_dirty" for node in ast.walk(tree))

    def violations(self) -> Iterator[tuple[int, str]]:
        rules: list[Callable[[ast.AST], str]] = [self.leaves_autograd, self.leaves_torch]
        if self.name in ("forward", "setup_context"):
            rules += [self.keeps, self.writes, self.hands_out]
        for node in ast.walk(self.tree):
            for rule in rules:
                words = rule(node)
                if words:
                    yield getattr(node, "lineno", 0), words

    def leaves_autograd(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute) and node.attr == "data" and not self._is_ctx(node.value):
            return "`.data` hides operations from autograd"
        detached = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach"
        if detached and self.name in ("backward", "vjp") and self._is_saved(node.func.value):  # type: ignore[attr-defined]
            return "`.detach()` of a saved tensor removes the second derivative"
        return ""

    def leaves_torch(self, node: ast.AST) -> str:
        if not isinstance(node, ast.Call):
            return ""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        base: ast.expr = node.func
        while isinstance(base, ast.Attribute):
            base = base.value
        numpy = isinstance(base, ast.Name) and base.id in self.numpy
        return "NumPy cannot read tensors while tracing" if method == "numpy" or numpy else ""

    def keeps(self, node: ast.AST) -> str:
        kept = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in self.tensors
        if kept and any(isinstance(t, ast.Attribute) and self._is_ctx(t.value) for t in node.targets):  # type: ignore[attr-defined]
            return "a tensor is kept as an attribute of ctx, so writes to it are not detected and it is not freed"
        return ""

    def writes(self, node: ast.AST) -> str:
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            in_place = node.func.attr.endswith("_") and not node.func.attr.endswith("__")
            target = node.func.value if in_place and node.func.attr != "requires_grad_" else None
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = next((t for t in node.targets if isinstance(t, ast.Subscript)), None)
        while isinstance(target, ast.Subscript):
            target = target.value
        written = isinstance(target, ast.Name) and target.id in self.tensors and not self.marks
        return "an input is modified in place without `ctx.mark_dirty`" if written else ""

    def hands_out(self, node: ast.AST) -> str:
        if not isinstance(node, ast.Return) or self.name != "forward":
            return ""
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _VIEWS:
            value = value.func.value
            if isinstance(value, ast.Name) and value.id in self.tensors:
                return "`forward` returns a view of its input, which a custom operator must not do"
        return ""

    def _is_ctx(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.ctx

    def _unpacked(self, node: ast.AST) -> list[str]:
        if not isinstance(node, ast.Assign) or not self._is_saved_tuple(node.value):
            return []
        return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]

    def _is_saved_tuple(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in ("saved_tensors", "saved_variables")

    def _is_saved(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):
            return self._is_saved_tuple(node.value)
        return isinstance(node, ast.Name) and node.id in self.saved
