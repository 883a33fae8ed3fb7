"""Interpret the source of a function with kinds instead of values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType

from pytest_exportready.analysis.source.abstract_values import UNKNOWN, Kind, Known, constant, either, known, mixed
from pytest_exportready.analysis.source.calls import Calls
from pytest_exportready.analysis.source.function_source import Scope, Source, source_of

DEPTH = 30
STATEMENTS = 20_000  # of a whole analysis: a few tenths of a second


@dataclass
class Interpreter:
    """Follow user functions from call to call."""

    report: Callable[[Source, Scope, int, str, str, bool], None]
    """Called with function, kinds of its names, line, what (``branch``, ...), words, and whether it is surely run."""
    running: set[tuple[int, int]] = field(default_factory=set)
    left: int = STATEMENTS
    doubts: int = 0  # unknown conditions around the line

    def found(self, source: Source, scope: Scope, line: int, what: str, words: str) -> None:
        self.report(source, scope, line, what, words, not self.doubts)

    def may_go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0

    @contextmanager
    def doubting(self, doubt: bool) -> Iterator[None]:
        """Within the block lines may never be reached, if ``doubt``."""
        self.doubts += doubt
        try:
            yield
        finally:
            self.doubts -= doubt

    def call(
        self, function: FunctionType, arguments: Sequence[Kind], keywords: dict[str, Kind], owner: int = 0
    ) -> Kind:
        """Return the kind of the result of a user function."""
        source = source_of(function)
        key = (id(function.__code__), owner)
        if source is None or key in self.running or len(self.running) >= DEPTH:
            return UNKNOWN
        self.running.add(key)
        try:
            return Body(self, source, _bound(source, arguments, keywords)).run()
        finally:
            self.running.discard(key)


def _bound(source: Source, arguments: Sequence[Kind], keywords: dict[str, Kind]) -> Scope:
    parameters = source.tree.args
    names = [p.arg for p in [*parameters.posonlyargs, *parameters.args]]
    scope: Scope = dict.fromkeys([*names, *(p.arg for p in parameters.kwonlyargs)], UNKNOWN)
    values = source.function.__defaults__ or ()
    scope |= {name: known(value) for name, value in zip(names[len(names) - len(values) :], values, strict=True)}
    scope |= {name: known(value) for name, value in (source.function.__kwdefaults__ or {}).items()}
    scope |= dict(zip(names, arguments, strict=False))
    scope |= {name: kind for name, kind in keywords.items() if name in scope}
    for caught in (parameters.vararg, parameters.kwarg):
        if caught:
            scope[caught.arg] = UNKNOWN
    return scope


class Body(Calls):
    """Statements in one call of one function."""

    def __init__(self, interpreter: Interpreter, source: Source, scope: Scope) -> None:
        super().__init__(interpreter, source, scope)
        self.returned: list[Kind] = []

    def run(self) -> Kind:
        self.block(self.source.tree.body)
        result = self.returned[0] if self.returned else UNKNOWN
        for kind in self.returned[1:]:
            result = either(result, kind)
        return result

    def block(self, statements: Sequence[ast.stmt]) -> bool:
        """Interpret a block; return False if the statement after it is never reached."""
        return all(self.statement(statement) for statement in statements)

    def statement(self, node: ast.stmt) -> bool:
        if not self.interpreter.may_go_on():
            return False
        if isinstance(node, ast.Return):
            self.returned.append(self.kind(node.value) if node.value else known(None))
            return False
        if isinstance(node, (ast.Raise, ast.Continue, ast.Break)):
            return False
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, ast.While):
            self.test(node.test, "while")
            self.alternatives(node.body, node.body)
        elif isinstance(node, ast.Assert):
            self.test(node.test, "assert")
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.assign(node.target, self.iterated(node.iter))
            self.alternatives(node.body, [])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            kind = self.kind(node.value) if node.value else UNKNOWN
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.assign(target, kind, node.value)
        elif isinstance(node, ast.AugAssign):
            before = self.kind(ast.Name(node.target.id)) if isinstance(node.target, ast.Name) else UNKNOWN
            self.assign(node.target, mixed([before, self.kind(node.value)]))
        elif isinstance(node, ast.Expr):
            self.kind(node.value)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.shared.update(node.names)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.kind(item.context_expr)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, UNKNOWN)
            return self.block(node.body)
        elif isinstance(node, ast.Try):
            self.alternatives(node.body, [])
            self.block(node.finalbody)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            self.scope[node.name] = UNKNOWN
        return True

    def branch(self, node: ast.If) -> bool:
        kind = self.test(node.test, "if")
        if constant(kind):
            assert isinstance(kind, Known)
            return self.block(node.body if kind.value else node.orelse)
        with self.interpreter.doubting(kind is UNKNOWN):
            return self.alternatives(node.body, node.orelse)

    def alternatives(self, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> bool:
        """Interpret both blocks from the same state and merge the kinds of names after them."""
        before = dict(self.scope)
        through = self.block(body)
        first, self.scope = self.scope, before
        reached = self.block(orelse)
        if through and reached:
            names = {*first, *self.scope}
            self.scope = {n: either(first.get(n, UNKNOWN), self.scope.get(n, UNKNOWN)) for n in names}
        elif through:
            self.scope = first
        return through or reached
