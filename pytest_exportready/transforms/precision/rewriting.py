"""Cast the operands of a program's operators in its graph, as ``torch.autocast`` does at run time."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.node import map_arg

from pytest_exportready.analysis.program.nodes import operator_name
from pytest_exportready.analysis.program.program_copy import program_copy
from pytest_exportready.analysis.torch_internals.programs import tracing_mode
from pytest_exportready.transforms.precision.policy import Policy, policy_of

LOWER = (torch.float16, torch.bfloat16)
_CAST = torch.ops.aten._to_copy.default
_CASTS = ("aten::to", "aten::_to_copy")
_ASSERTION = "aten::_assert_tensor_metadata"


def to_precision(program: ExportedProgram, dtype: torch.dtype) -> ExportedProgram:
    """Return ``program`` with its matrix products and convolutions in ``dtype``, as under autocast.

    Inputs, outputs, weights and dynamic dimensions keep their dtypes; so do branches, loops and custom operators.
    ``precision_report`` lists the dtype of each operator. ``program`` is not changed and shares its weights. As under
    autocast, a cast creates a new tensor, so in-place writes to one are not visible in the other. For nets of matrix
    products and convolutions the output equals that of autocast bitwise.

    Args:
        dtype: ``torch.float16`` or ``torch.bfloat16``.

    Raises:
        ValueError: Another dtype, or an operator accepts neither ``dtype`` nor float32.
    """
    if dtype not in LOWER:
        raise ValueError(f"to_precision: dtype is {dtype}, expected one of {', '.join(map(str, LOWER))}")
    lowered = program_copy(program)
    rewriting = _Rewriting(lowered, dtype)
    for node in list(lowered.graph.nodes):
        if node.op == "call_function":
            rewriting.operator(node)
        elif node.op == "output":
            rewriting.output(node)
    lowered.graph_module.recompile()
    return lowered


class _Rewriting:
    """Rewrite one graph from the first node to the last; ``meta["val"]`` follows the casts."""

    def __init__(self, program: ExportedProgram, dtype: torch.dtype) -> None:
        self.signature, self.dtype, self._mode = program.graph_signature, dtype, tracing_mode(program)
        self._before: dict[torch.fx.Node, Any] = {}  # former values of nodes whose dtype has changed
        self._casts: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node] = {}
        self._raised: dict[
            torch.fx.Node, torch.fx.Node
        ] = {}  # operands of the program's own casts to float32, by the cast

    def operator(self, node: torch.fx.Node) -> None:
        if operator_name(node) == _ASSERTION:
            if node.args[0] in self._before:
                node.graph.erase_node(node)
            return
        self._follow(node, self._policy(node))
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            self._casts.clear()  # the values may have been written
            self._raised.clear()
        elif operator_name(node) in _CASTS and _dtypes(node.meta["val"]) == [torch.float32]:
            self._raised[node] = node.all_input_nodes[0]

    def output(self, node: torch.fx.Node) -> None:
        for given in dict.fromkeys(node.all_input_nodes):
            if given in self._before and isinstance(given.meta["val"], torch.Tensor):
                back = self._cast(given, self._before[given].dtype, node)
                node.replace_input_with(given, back)
                self.signature.replace_all_uses(given.name, back.name)

    def _policy(self, node: torch.fx.Node) -> Policy | None:
        """Return the policy; None for a node whose operands keep their former dtypes."""
        target = node.target
        if getattr(target, "__name__", "") == "getitem":
            return "as given"
        known = isinstance(target, torch._ops.OpOverload) and target.namespace in ("aten", "prims")
        if not known or node.meta.get("unbacked_bindings"):
            return None
        if target._schema.is_mutable:  # type: ignore[union-attr]
            return "as given"  # its result goes into the operand
        return policy_of(operator_name(node))

    def _follow(self, node: torch.fx.Node, policy: Policy | None) -> None:
        wanted = [self._wanted(node, policy)]
        if policy == "as given":
            wanted.append(self._wanted(node, "float32"))  # for an operator that does not accept mixed dtypes
        for casts in wanted:
            if not casts and not self._before.keys() & set(node.all_input_nodes):
                return
            try:
                val = self._given(node, casts) if policy is not None else node.meta.get("val")
            except (RuntimeError, TypeError, ValueError):
                continue
            for given, dtype in casts.items():
                node.replace_input_with(given, self._cast(given, dtype, node))
            if _dtypes(val) != _dtypes(node.meta.get("val")):
                self._before[node] = node.meta["val"]
                node.meta["val"] = val
            return
        raise ValueError(f"to_precision: {node.name} ({operator_name(node)}) accepts neither {self.dtype} nor float32")

    def _wanted(self, node: torch.fx.Node, policy: Policy | None) -> dict[torch.fx.Node, torch.dtype]:
        """Return the operands of ``node`` to cast, with their dtypes."""
        operands = {n: n.meta["val"].dtype for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)}
        eligible = {n: dtype for n, dtype in operands.items() if dtype in (torch.float32, self.dtype)}
        if policy is None:
            return {n: self._before[n].dtype for n in operands if n in self._before}
        if policy == "as given" or not eligible:
            return {}
        if policy == "widest":
            policy = "float32" if torch.float32 in eligible.values() else "lower"
        dtype = self.dtype if policy == "lower" else torch.float32
        return {n: dtype for n, has in eligible.items() if has != dtype}

    def _given(self, node: torch.fx.Node, casts: dict[torch.fx.Node, torch.dtype]) -> Any:
        """Return the fake value of ``node`` with these casts."""

        def fake(operand: torch.fx.Node) -> Any:
            val: Any = operand.meta.get("val")
            return val.to(casts[operand]) if operand in casts else val

        with self._mode, torch.no_grad():
            args, kwargs = map_arg((node.args, node.kwargs), fake)
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _cast(self, node: torch.fx.Node, dtype: torch.dtype, user: torch.fx.Node) -> torch.fx.Node:
        """Return ``node`` cast to ``dtype`` for ``user``; reuse a cast, and undo a cast instead of adding one."""
        if node in self._raised and _dtypes(self._raised[node].meta["val"]) == [dtype]:
            return self._raised[node]
        if (node, dtype) not in self._casts:
            with user.graph.inserting_before(user):
                cast = user.graph.call_function(_CAST, (node,), {"dtype": dtype})
            origin = ("stack_trace", "nn_module_stack", "torch_fn", "from_node")
            cast.meta = {key: user.meta[key] for key in origin if key in user.meta}
            with self._mode:
                cast.meta["val"] = node.meta["val"].to(dtype)
            self._casts[node, dtype] = cast
        return self._casts[node, dtype]


def _dtypes(val: Any) -> list[torch.dtype]:
    values = val if isinstance(val, tuple | list) else [val]
    return [value.dtype for value in values if isinstance(value, torch.Tensor)]
