"""Remove the device of the export from a program.

``torch.export`` writes ``device=x.device`` into the graph as a literal, asserts it at every ``.to()``, and keeps
tensors created in ``forward`` where ``module.to()`` does not move them. Here created tensors follow an input, so that
one ``.pt2`` loads on every machine and runs where ``program.module().to(device)`` moves it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx.node import map_arg

from pytest_exportready.analysis.program.nodes import graphs, operator_name, owner, source
from pytest_exportready.analysis.program.program_copy import program_copy
from pytest_exportready.analysis.torch_internals.programs import tracing_mode
from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.wording import few

aten = torch.ops.aten
_NEW = {aten.zeros.default: aten.new_zeros.default, aten.ones.default: aten.new_ones.default,
        aten.full.default: aten.new_full.default, aten.empty.memory_format: aten.new_empty.default}  # fmt: skip
_CPU = torch.device("cpu")  # available on every machine


class DeviceBaked(ExplainedError, ValueError):
    """A node has a device that no input can provide; the problem names node, line and device."""

    def __init__(self, node: torch.fx.Node, constant: object, fix: str) -> None:
        self.node = node
        self.what = f"`{node.name}` ({operator_name(node)}) has the fixed device {constant}"
        file, line = source(node)
        places = [f"{file}:{line}" if file else "", owner(node)]
        super().__init__(f"{', '.join(p for p in places if p) or 'the program'}: {self.what}", fix)


def purify_devices(program: ExportedProgram) -> ExportedProgram:
    """Return a copy of ``program`` that computes the same and runs on any device.

    The copy has the same shapes, names and dynamic dimensions, and shares the weights. ``zeros``, ``ones``, ``full``
    and ``empty`` create on the device of the first tensor input, or else of the first weight; other tensors, such as
    those of ``arange``, are created on the CPU and moved. ``torch.export`` records ``.cpu()`` like ``.to(x.device)``,
    so an output that was moved to the CPU stays on the device of the inputs. ``run_decompositions`` writes a device
    into the graph again: decompose first.

    Raises:
        DeviceBaked: A node cannot follow an input: an enabled ``torch.autocast`` of a fixed device type, a custom
            operator with a device argument, or tensors of the program on several devices.
    """
    freed = program_copy(program)
    freeing = _Freeing(freed)
    for module in graphs(freed):
        for node in list(module.graph.nodes):
            if node.op == "call_function":
                freeing.free(node)
        module.recompile()
    freed.graph_signature.input_specs[:] = [_movable(spec) for spec in freed.graph_signature.input_specs]
    return freed


def literal_devices(program: ExportedProgram) -> list[tuple[torch.fx.Node, torch.device]]:
    """Return every device argument of a node, nested graphs included."""
    called = (node for module in graphs(program) for node in module.graph.nodes if node.op == "call_function")
    return [(node, device) for node in called for device in _devices(node)]


def _home(program: ExportedProgram) -> torch.device:
    """Return the device of all inputs and weights. Raise DeviceBaked if they are on several."""
    found: dict[torch.device, torch.fx.Node] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dim():
            found.setdefault(node.meta["val"].device, node)
    if len(found) > 1:
        raise DeviceBaked(list(found.values())[1], few(map(str, found)), "Move model and inputs to one device.")
    return next(iter(found), _CPU)


class _Freeing:
    """Remove the devices of one program's nodes."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program, self._home, self._mode = program, _home(program), tracing_mode(program)

    def free(self, node: torch.fx.Node) -> None:
        if operator_name(node) == "wrap_with_autocast" and node.args[2]:
            fix = "Move autocast out of `forward`, around the call, or decompose the program."
            raise DeviceBaked(node, node.args[0], fix)
        literal = next((d for d in _devices(node) if _same(d, self._home)), None)
        if literal is None:
            return
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            raise DeviceBaked(node, str(literal), "Let the operator use the device of its inputs.")
        follows = bool(node.args) and isinstance(node.args[0], torch.fx.Node)  # its device is that of its first operand
        if follows and node.target == aten.to.device:
            args = (node.args[0], node.meta["val"].dtype, *node.args[3:])
            self._replace(node, aten.to.dtype, args, _without(node, "dtype"))
        elif follows and node.kwargs.get("device") == literal:
            node.kwargs = _without(node)
        elif follows:
            raise DeviceBaked(node, str(literal), "Move with `x.to(y.device)`, where `y` is an input.")
        else:
            self._make(node, self._reference(node))

    def _make(self, node: torch.fx.Node, reference: torch.fx.Node) -> None:
        """Create the tensor of ``node`` on the device of ``reference``."""
        dtype = {"dtype": node.meta["val"].dtype}
        if node.target in _NEW and node.kwargs.get("memory_format") is None:
            self._replace(node, _NEW[node.target], (reference, *node.args), dtype)
        elif node.target == aten.scalar_tensor.default:
            self._replace(node, aten.new_full.default, (reference, [], *node.args), dtype)
        else:
            node.kwargs = {**node.kwargs, "device": _CPU}
            users = list(node.users)
            with node.graph.inserting_after(node):
                like = self._call(node, aten.new_empty.default, (reference, [0]), dtype)
            with node.graph.inserting_after(like):
                there = self._call(node, aten.to.other, (node, like), {})
            for user in users:
                user.replace_input_with(node, there)
            if node.graph is self._program.graph:
                self._program.graph_signature.replace_all_uses(node.name, there.name)

    def _reference(self, node: torch.fx.Node) -> torch.fx.Node:
        """Return a tensor that enters the graph of ``node``: a user input rather than a weight."""
        outermost = node.graph is self._program.graph
        given = set(self._program.graph_signature.user_inputs) if outermost else set()
        placeholders: list[torch.fx.Node] = node.graph.find_nodes(op="placeholder")
        entering = [n for n in placeholders if isinstance(n.meta.get("val"), torch.Tensor)]
        if not entering:
            constant = str(node.kwargs.get("device"))
            raise DeviceBaked(node, constant, "Give the branch or the model a tensor input.")
        return min(entering, key=lambda n: (n.name not in given, not n.meta["val"].dim()))

    def _replace(self, node: torch.fx.Node, target: Any, args: Any, kwargs: dict[str, Any]) -> None:
        with node.graph.inserting_before(node):
            new = self._call(node, target, args, kwargs)
        name = node.name
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)
        new.name = name  # outputs are known by it

    def _call(self, node: torch.fx.Node, target: Any, args: Any, kwargs: dict[str, Any]) -> torch.fx.Node:
        """Return a new node from the same line as ``node``."""
        new: torch.fx.Node = node.graph.call_function(target, args, kwargs)
        new.meta = dict(node.meta)
        fake_args, fake_kwargs = map_arg((args, kwargs), lambda given: given.meta["val"])
        with self._mode:
            new.meta["val"] = target(*fake_args, **fake_kwargs)
        return new


def _same(literal: torch.device, home: torch.device) -> bool:
    return literal.type == home.type and literal.index in (None, home.index)


def _without(node: torch.fx.Node, *names: str) -> dict[str, Any]:
    return {name: value for name, value in node.kwargs.items() if name not in ("device", *names)}


def _devices(node: torch.fx.Node) -> list[torch.device]:
    return [value for value in [*node.args, *node.kwargs.values()] if isinstance(value, torch.device)]


def _movable(spec: InputSpec) -> InputSpec:
    """Return a non-persistent buffer, which ``module.to()`` moves, instead of a constant."""
    if spec.kind != InputKind.CONSTANT_TENSOR:
        return spec
    return InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)
