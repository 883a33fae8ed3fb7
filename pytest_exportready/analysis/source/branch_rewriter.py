"""Rewrite branches on tensor values with ``torch.where`` or ``torch.cond``.

``torch.where`` if both sides may be computed for every input, ``torch.cond`` if they are pure. The caller verifies the
result.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

import torch

from pytest_exportready.analysis.source.abstract_values import is_tensor
from pytest_exportready.analysis.source.purity import Purity
from pytest_exportready.analysis.source.source_edit import Edit
from pytest_exportready.analysis.source.value_dependent_lines import Suspect

Choice = ast.If | ast.IfExp


class CannotRewrite(Exception):
    """The branch cannot be rewritten safely."""


def choices(sites: Sequence[Suspect]) -> list[Choice]:
    """Return the ``if`` at each site, all of one function. Raise CannotRewrite if there is not exactly one."""
    found = []
    for site in sites:
        there = [
            node
            for node in ast.walk(site.source.tree)
            if isinstance(node, (ast.If, ast.IfExp))
            and node.test.lineno <= site.line <= (node.test.end_lineno or node.test.lineno)
        ]
        if len(there) != 1:
            raise CannotRewrite
        found += there
    return found


def rewritten(sites: Sequence[Suspect]) -> list[Edit]:
    """Return edits that replace the branches at ``sites``, all of one function.

    Raises:
        CannotRewrite: A branch writes, draws random numbers, prints, raises or loops, or too little is known about it.
    """
    wanted = choices(sites)
    edits: list[Edit] = []
    for site, choice in sorted(zip(sites, wanted, strict=True), key=lambda pair: pair[1].lineno):
        if not any(edit.start <= (choice.lineno, choice.col_offset) < edit.end for edit in edits):
            edits.append(_Branches(site, wanted).edit(choice))
    return edits


class _Branches:
    """An outermost branch of a function and those inside it."""

    def __init__(self, site: Suspect, wanted: Sequence[Choice]) -> None:
        self.scope, self.tree, self.wanted = site.scope, site.source.tree, wanted
        self.purity = Purity(site.source, site.scope)
        self.made: dict[int, bool] = {}  # expressions created here: whether they may be computed but not chosen
        code, outer = site.source.function.__code__, site.source.function.__globals__
        self.torch = next((name for name, value in outer.items() if value is torch), "")
        if not self.torch or self.torch in code.co_varnames:
            raise CannotRewrite

    def edit(self, choice: Choice) -> Edit:
        if isinstance(choice, ast.IfExp):
            return Edit.of(choice, choice, [self.expression(choice)])
        if any(isinstance(node, ast.Return) for node in ast.walk(choice)):
            if choice not in self.tree.body:
                raise CannotRewrite  # out of a loop or a with
            end = self.tree.body[self.tree.body.index(choice) :]
            return Edit.of(choice, end[-1], [ast.Return(self.returned(end))])
        return Edit.of(choice, choice, self.assignments(choice))

    def returned(self, statements: Sequence[ast.stmt]) -> ast.expr:
        """Return the expression that the rest of the function returns."""
        match statements:
            case [ast.Return(value=ast.expr() as value)]:
                return self.expression(value)
            case [ast.If() as choice, *rest] if choice in self.wanted:
                first, second = ([*body, *([] if _returns(body) else rest)] for body in (choice.body, choice.orelse))
                return self.chosen(choice.test, self.returned(first), self.returned(second))
        raise CannotRewrite

    def assignments(self, choice: ast.If) -> list[ast.stmt]:
        values = self.values([choice])
        if not values:
            raise CannotRewrite
        crossed = any(_reads(value) & (values.keys() - {name}) for name, value in values.items())
        again = len(values) > 1 and bool(_reads(choice.test) & values.keys())
        if crossed or again or (len(values) > 1 and not all(self.made[id(value)] for value in values.values())):
            raise CannotRewrite  # the second assignment would see the first
        return [_assign(name, value) for name, value in values.items()]

    def values(self, statements: Sequence[ast.stmt]) -> dict[str, ast.expr]:
        """Return the values of names after a block, as expressions of the names before it."""
        found: dict[str, ast.expr] = {}
        for statement in statements:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    new = {name: self.expression(value)}
                case ast.If() if statement in self.wanted:
                    first, second = self.values(statement.body), self.values(statement.orelse)
                    new = {
                        name: self.chosen(statement.test, first.get(name, _name(name)), second.get(name, _name(name)))
                        for name in {**first, **second}
                    }
                case ast.Pass():
                    continue
                case _:
                    raise CannotRewrite
            if any(_reads(value) & found.keys() for value in new.values()):
                raise CannotRewrite
            found |= new
        return found

    def expression(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.IfExp) and node in self.wanted:
            return self.chosen(node.test, self.expression(node.body), self.expression(node.orelse))
        return node

    def chosen(self, test: ast.expr, first: ast.expr, second: ast.expr) -> ast.expr:
        """Return the expression for ``first`` if the test holds, else ``second``."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.chosen(test.operand, second, first)
        condition = self.condition(test)
        if all(self.made.get(id(side)) or self.purity.everywhere(side) for side in (first, second)):
            return self._made(self._torch("where", condition, first, second), everywhere=True)
        operands = [name for name in sorted(_reads(first) | _reads(second)) if name in self.scope]
        operands = [name for name in operands if is_tensor(self.scope[name])]
        if not operands or not all(id(side) in self.made or self.purity.pure(side) for side in (first, second)):
            raise CannotRewrite
        sides = [_function(operands, side) for side in (first, second)]
        given = ast.Tuple([_name(name) for name in operands], ast.Load())
        return self._made(self._torch("cond", condition, *sides, given), everywhere=False)

    def condition(self, test: ast.expr) -> ast.expr:
        """Return a test as a tensor expression, which is evaluated even if an outer branch is not taken."""
        if isinstance(test, ast.BoolOp) and self.purity.everywhere(test):
            name = "logical_and" if isinstance(test.op, ast.And) else "logical_or"
            first, *others = map(self.condition, test.values)
            for other in others:
                first = self._torch(name, first, other)
            return first
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._torch("logical_not", self.condition(test.operand))
        if isinstance(test, (ast.BoolOp, ast.NamedExpr)) or (isinstance(test, ast.Compare) and len(test.ops) > 1):
            raise CannotRewrite
        tensor = _AsTensor().visit(copy.deepcopy(test))
        if not self.purity.pure(tensor):
            raise CannotRewrite
        return tensor  # type: ignore[no-any-return]

    def _made(self, node: ast.expr, *, everywhere: bool) -> ast.expr:
        self.made[id(node)] = everywhere
        return node

    def _torch(self, name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(_name(self.torch), name, ast.Load()), list(arguments), [])


class _AsTensor(ast.NodeTransformer):
    """Replace ``x.item()``, ``float(x)`` and ``bool(x)`` in a comparison by ``x``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[], keywords=[]):
                return self.visit(value)  # type: ignore[no-any-return]
            case ast.Call(func=ast.Name(id="bool" | "float"), args=[value], keywords=[]):
                return self.visit(value)  # type: ignore[no-any-return]
        return self.generic_visit(node)


def _function(parameters: Sequence[str], value: ast.expr) -> ast.Lambda:
    """Return a lambda. ``torch.cond`` rejects branches that return an operand, so a name is cloned."""
    if isinstance(value, (ast.Name, ast.Attribute)):
        value = ast.Call(ast.Attribute(value, "clone", ast.Load()), [], [])
    return ast.Lambda(ast.arguments([], [ast.arg(name) for name in parameters], None, [], [], None, []), value)


def _returns(statements: Sequence[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return) for statement in statements)


def _reads(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)
