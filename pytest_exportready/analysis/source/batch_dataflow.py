"""Names of a function that hold Python numbers computed from the batch size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

Function = ast.FunctionDef | ast.Lambda

_ARITHMETIC = frozenset({"int", "float", "len", "max", "min", "round", "abs", "pow", "sum", "range", "bool", "math"})
_MAKES = frozenset({"tensor", "as_tensor", "scalar_tensor", "new_tensor", "sqrt", "pow", "log"})
# Calls whose arguments are sizes, which the graph holds as sizes.
_TAKES_SIZES = frozenset(
    [
        "view",
        "reshape",
        "expand",
        "repeat",
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "split",
        "chunk",
        "narrow",
        "unflatten",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "tile",
        "split_with_sizes",
        "linspace",
        "rand",
        "randn",
        "eye",
        "broadcast_to",
        "expand_as",
        "resize_",
        "as_strided",
    ]
)


_OPERATORS: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Mult: ("mul", "multiply"),
    ast.Div: ("div", "true_divide", "mul"),
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub", "subtract"),
    ast.Pow: ("pow",),
    ast.FloorDiv: ("floor_divide", "div"),
    ast.Mod: ("remainder", "fmod"),
    ast.MatMult: (),
}
_MAKES_TENSORS = frozenset({"tensor", "as_tensor", "scalar_tensor", "new_tensor"})
_MADE = ("lift_fresh_copy", "detach", "scalar_tensor", "to", "to_copy", "full")
_COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne")


class BatchNames:
    """The names of one function.

    Args:
        dim: The dimension of the batch; None for any.
        given: Parameters that the caller passes such numbers for.
    """

    def __init__(self, function: Function, dim: int | None, given: frozenset[str] = frozenset()) -> None:
        self.function = function
        self.dim = dim
        self.names = set(given)
        body = function.body if isinstance(function, ast.FunctionDef) else []
        for _ in range(2):  # in a loop a name may be used above its assignment
            for node in (node for statement in body for node in ast.walk(statement)):
                self._assign(node)

    def branch(self) -> int:
        """Return the line of the first branch or loop that depends on the batch size; 0 without one.

        Checks that only raise are not counted.
        """
        for node in ast.walk(self.function):
            if isinstance(node, ast.If) and _only_raises(node):
                continue
            decided = node.test if isinstance(node, (ast.If, ast.While, ast.IfExp)) else None
            decided = node.iter if isinstance(node, (ast.For, ast.comprehension)) else decided
            if decided is not None and self.sized(decided):
                return decided.lineno
        return 0

    def computes(self, part: ast.AST, operator: str, number: float) -> bool:
        """Return whether a part passes to ``operator`` (``mul``) a number from the batch that can be ``number``."""
        found = any(operator in kinds if kinds else self.dim is not None for kinds in self._computed(part))
        return found and not any(self._is_literal(node, number) for node in ast.walk(part))

    def gives_sizes(self, part: ast.AST) -> bool:
        """Return whether a part creates a tensor with a size from the batch."""
        calls = [node for node in ast.walk(part) if isinstance(node, ast.Call)]
        made = [call for call in calls if ast.unparse(call.func).split(".")[-1] in _TAKES_SIZES]
        return any(self.sized(value) for call in made for value in call.args)

    def passed(self, call: ast.Call, callee: Function) -> frozenset[str]:
        """Return the parameters of ``callee`` that this call passes numbers from the batch for."""
        parameters = [argument.arg for argument in [*callee.args.posonlyargs, *callee.args.args]]
        if parameters[:1] == ["self"]:
            del parameters[0]
        found = {name for name, value in zip(parameters, call.args, strict=False) if self.sized(value)}
        return frozenset(found | {keyword.arg or "" for keyword in call.keywords if self.sized(keyword.value)})

    def sized(self, node: ast.AST) -> bool:
        """Return whether an expression is a Python number, or several, from the batch."""
        if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in self.names:
            return True
        if isinstance(node, ast.Attribute):
            return node.attr == "shape"
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Slice):
                return self.sized(node.value) and _starts_at_zero(node.slice)
            return self._is_batch(node.slice) if self.sized(node.value) else self.sized(node.slice)
        if isinstance(node, ast.Call):
            return self._sized_call(node)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List)):
            return any(self.sized(child) for child in ast.iter_child_nodes(node))
        return isinstance(node, ast.Starred) and self.sized(node.value)

    def _sized_call(self, call: ast.Call) -> bool:
        names = ast.unparse(call.func).split(".")
        if names[-1] == "size":
            return not call.args or self._is_batch(call.args[0])
        if names[-1] in ("numel", "__len__") or names == ["len"]:
            return True
        return (names[0] in _ARITHMETIC or names[-1] in _MAKES) and any(self.sized(value) for value in call.args)

    def _is_batch(self, index: ast.expr) -> bool:
        return self.dim is None or not isinstance(_constant(index), int) or _constant(index) == self.dim

    def _assign(self, node: ast.AST) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            targets = [node.target]
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            if isinstance(target, (ast.Tuple, ast.List)):
                self._unpack(target.elts, value)
            elif self.sized(value):
                self.names.add(ast.unparse(target))

    def _unpack(self, targets: list[ast.expr], value: ast.expr) -> None:
        if isinstance(value, (ast.Tuple, ast.List)):
            sized = [target for target, part in zip(targets, value.elts, strict=False) if self.sized(part)]
        else:
            its = slice(None) if self.dim is None else slice(self.dim, self.dim + 1)
            sized = targets[its] if self.sized(value) else []
        self.names |= {ast.unparse(target) for target in sized if not isinstance(target, ast.Starred)}

    def _computed(self, node: ast.AST) -> Iterator[tuple[str, ...]]:
        """Yield, for each place that computes tensors with a number from the batch, the possible operators; () for any.

        Arguments that are sizes do not count, nor does what other user functions do: these are examined themselves.
        """
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            if name in ("full", "new_full", "fill_"):
                values = values[-1:]
            elif name in _TAKES_SIZES:
                yield from self._computed(node.func)
                return
            users = isinstance(node.func, ast.Name) or ast.unparse(node.func) in (f"self.{name}", f"math.{name}")
            if not users and name != "size" and any(self.sized(value) for value in values):
                yield _MADE if name in _MAKES_TENSORS else (name,) if hasattr(torch.ops.aten, name) else ()
        if isinstance(node, (ast.BinOp, ast.AugAssign)):
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
            if any(self.sized(side) for side in sides):
                yield _OPERATORS.get(type(node.op), (type(node.op).__name__,))
        if isinstance(node, ast.Compare) and self.sized(node):
            yield _COMPARISONS
        if isinstance(node, ast.Return) and node.value is not None and self.sized(node.value):
            yield ("",)
        for child in [node.value] if isinstance(node, ast.Subscript) else ast.iter_child_nodes(node):
            yield from self._computed(child)

    def _is_literal(self, node: ast.AST, number: float) -> bool:
        """Return whether the number is written there as an operand."""
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        values = [_constant(side) for side in sides]
        return any(value == number for value in values) and not any(self.sized(side) for side in sides)

    def statement(self, line: int) -> ast.AST:
        """Return the smallest statement that contains a line; for a lambda its value."""
        if isinstance(self.function, ast.Lambda):
            return self.function.body
        held = [
            node
            for node in ast.walk(self.function)
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return min(held, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _only_raises(node: ast.If) -> bool:
    return not node.orelse and all(isinstance(statement, (ast.Raise, ast.Pass, ast.Assert)) for statement in node.body)


def _starts_at_zero(part: ast.Slice) -> bool:
    return part.lower is None or _constant(part.lower) == 0


def _constant(node: ast.expr) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return -value if isinstance(value, (int, float)) else None
    return node.value if isinstance(node, ast.Constant) else None
