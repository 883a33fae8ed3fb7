"""The kinds of expressions, and assignments of them."""

from __future__ import annotations

import ast

from torch import nn

from pytest_exportready.analysis.source import operators
from pytest_exportready.analysis.source.abstract_values import (
    LOOSE,
    MASK,
    NUMBER,
    PYTHON,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Kind,
    Known,
    constant,
    either,
    is_tensor,
    known,
    mixed,
    of_values,
)
from pytest_exportready.analysis.source.function_source import CallFollower, Scope, Source
from pytest_exportready.analysis.source.static_attributes import attribute_of, entry_of, identity, source_text


class Expressions:
    """Expressions in one call of one function. Handlers are named after the classes of ``ast``."""

    def __init__(self, interpreter: CallFollower, source: Source, scope: Scope) -> None:
        self.interpreter, self.source, self.scope = interpreter, source, scope
        self.shared: set[str] = set()  # names declared global or nonlocal

    def report(self, node: ast.AST, what: str, words: str) -> None:
        self.interpreter.found(self.source, self.scope, getattr(node, "lineno", 0), what, words)

    def test(self, node: ast.expr, word: str) -> Kind:
        """Return the kind of a condition; report it if it depends on tensor values."""
        kind = self.kind(node)
        if of_values(kind):
            of = "tensor values" if is_tensor(kind) else "a number taken from tensor values"
            self.report(node, "branch", f"`{word} {source_text(node)}` depends on {of}")
            return UNKNOWN
        return kind

    def assign(self, target: ast.expr, kind: Kind, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.shared:
                self.report(target, "state", f"`{target.id} = ...` writes a global or outer variable")
            self.scope[target.id] = kind
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for position, part in enumerate(target.elts):
                same = len(parts) == len(target.elts)
                self.assign(part, self.kind(parts[position]) if same else self.element(kind))
        elif isinstance(target, ast.Attribute):
            owner = self.kind(target.value)
            if is_tensor(owner) and target.attr in ("data", "grad"):
                self.report(target, "state", f"`{source_text(target)} = ...` replaces the {target.attr} of a tensor")
            elif isinstance(owner, Known) and isinstance(owner.value, nn.Module):
                self.report(target, "state", f"`{source_text(target)} = ...` sets an attribute of a module")
        elif isinstance(target, ast.Subscript):
            owner = self.kind(target.value)
            if isinstance(owner, Known) and isinstance(owner.value, (list, dict)):
                self.report(target, "state", f"`{source_text(target)} = ...` changes an object that outlives the call")

    def iterated(self, node: ast.expr) -> Kind:
        """Return the kind of an element of what a loop iterates over."""
        kind = self.kind(node)
        if is_tensor(kind):
            self.report(
                node,
                "loop",
                f"`for ... in {source_text(node)}` loops over a tensor, whose first size becomes a constant",
            )
        return self.element(kind)

    def element(self, kind: Kind) -> Kind:
        if isinstance(kind, Known) and isinstance(kind.value, (nn.ModuleList, nn.Sequential, list, tuple)):
            items = list(kind.value)
            same_class = items and all(isinstance(i, nn.Module) and type(i) is type(items[0]) for i in items)
            return known(items[0]) if same_class else UNKNOWN  # one layer represents all of its class
        return TENSOR if is_tensor(kind) or kind is TENSORS else PYTHON if kind is PYTHON else UNKNOWN

    def kind(self, node: ast.expr | None) -> Kind:
        handler = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if handler is not None:
            return handler(node)  # type: ignore[no-any-return]
        for child in ast.iter_child_nodes(node) if node is not None else ():
            if isinstance(child, ast.expr):
                self.kind(child)
        return UNKNOWN

    def on_constant(self, node: ast.Constant) -> Kind:
        return known(node.value)

    def on_joinedstr(self, node: ast.JoinedStr) -> Kind:
        return PYTHON

    def on_name(self, node: ast.Name) -> Kind:
        if node.id in self.scope:
            return self.scope[node.id]
        found, value = self.source.outer(node.id)
        return known(value) if found else UNKNOWN

    def on_attribute(self, node: ast.Attribute) -> Kind:
        owner = self.kind(node.value)
        if is_tensor(owner):
            return operators.attribute(owner, node.attr)
        if owner is TENSORS:
            return TENSOR if node.attr in ("values", "indices") else UNKNOWN
        return attribute_of(owner.value, node.attr) if isinstance(owner, Known) else UNKNOWN

    def on_subscript(self, node: ast.Subscript) -> Kind:
        owner, index = self.kind(node.value), self.kind(node.slice)
        if is_tensor(owner) and index is MASK:
            self.report(node, "size", f"`{source_text(node)}` has as many rows as the mask has true values")
            return LOOSE
        if owner is NUMBER:
            return NUMBER
        if isinstance(owner, Known) and of_values(index):
            self.report(node, "number", f"`{source_text(node)}` selects an entry by a tensor value")
            return UNKNOWN
        if owner is TENSORS and isinstance(node.slice, ast.Slice):
            return TENSORS
        if isinstance(owner, Known) and constant(index):
            assert isinstance(index, Known)
            return entry_of(owner.value, index.value)
        return self.element(owner)

    def on_slice(self, node: ast.Slice) -> Kind:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.kind(part)
        return PYTHON

    def on_tuple(self, node: ast.Tuple | ast.List) -> Kind:
        kinds = [self.kind(item) for item in node.elts]
        if isinstance(node, ast.Tuple) and all(isinstance(kind, Known) for kind in kinds):
            return known(tuple(kind.value for kind in kinds if isinstance(kind, Known)))
        return TENSORS if kinds and all(map(is_tensor, kinds)) else UNKNOWN

    on_list = on_tuple

    def on_binop(self, node: ast.BinOp) -> Kind:
        return mixed([self.kind(node.left), self.kind(node.right)])

    def on_unaryop(self, node: ast.UnaryOp) -> Kind:
        if not isinstance(node.op, ast.Not):
            return mixed([self.kind(node.operand)])
        kind = self.test(node.operand, "not")
        if isinstance(kind, Known) and constant(kind):
            return known(not kind.value)
        return kind if kind is PYTHON else UNKNOWN

    def on_boolop(self, node: ast.BoolOp) -> Kind:
        kinds: list[Kind] = []
        decides = isinstance(node.op, ast.Or)
        for position, value in enumerate(node.values):
            last = position == len(node.values) - 1
            asked = not last and UNKNOWN not in kinds  # after an unknown value it may never be evaluated
            kind = self.test(value, "or" if decides else "and") if asked else self.kind(value)
            if isinstance(kind, Known) and constant(kind) and bool(kind.value) == decides:
                return kind
            kinds.append(kind)
        if all(constant(kind) for kind in kinds):
            return kinds[-1]
        settled = all(constant(kind) or kind is PYTHON for kind in kinds[:-1])
        return kinds[-1] if settled else UNKNOWN

    def on_compare(self, node: ast.Compare) -> Kind:
        kinds = [self.kind(part) for part in (node.left, *node.comparators)]
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return identity(kinds[0], kinds[1], isinstance(node.ops[0], ast.Is))
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and len(kinds) == 2 and all(map(constant, kinds)):
            assert isinstance(kinds[0], Known)
            assert isinstance(kinds[1], Known)
            return known((kinds[0].value == kinds[1].value) == isinstance(node.ops[0], ast.Eq))
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return NUMBER if of_values(kinds[0]) else PYTHON
        return MASK if any(map(is_tensor, kinds)) else mixed(kinds)

    def on_ifexp(self, node: ast.IfExp) -> Kind:
        kind = self.test(node.test, "if")
        if isinstance(kind, Known) and constant(kind):
            return self.kind(node.body if kind.value else node.orelse)
        return either(self.kind(node.body), self.kind(node.orelse))

    def on_listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Kind:
        before = dict(self.scope)
        for part in node.generators:
            self.assign(part.target, self.iterated(part.iter))
            for condition in part.ifs:
                self.test(condition, "if")
        kind = self.kind(node.elt)
        self.scope = before
        return TENSORS if is_tensor(kind) else UNKNOWN

    on_generatorexp = on_listcomp

    def on_lambda(self, node: ast.Lambda) -> Kind:
        return UNKNOWN
