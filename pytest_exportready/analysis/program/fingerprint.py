"""Hash what an exported program computes: equal for equal programs in every process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import GraphModule, Node

from pytest_exportready.analysis.program.canonical_form import Symbols, canonical, canonical_tensor, digest
from pytest_exportready.analysis.program.node_effects import Memory, is_checked, is_ordered, schema_of, writes
from pytest_exportready.analysis.program.nodes import source
from pytest_exportready.analysis.program.tensor_hash import tensor_digest
from pytest_exportready.analysis.torch_internals.programs import program_guards


@dataclass(frozen=True)
class Step:
    """One node of a program."""

    digest: str  # of its value, with all that it depends on
    words: str  # operator and line


def graph_fingerprint(program: ExportedProgram) -> str:
    """Return a hash (32 hex digits) of what ``program`` computes.

    It includes operators and their arguments by schema name (without defaults, floats exactly), shapes, strides and
    dtypes of inputs, names of parameters and buffers, values of constants, guards, ranges of symbolic sizes, the
    structure of inputs and outputs, and the order of effects. It does not include names and order of nodes, unused
    nodes and weights, stack traces, file paths, the torch build, values of parameters and buffers (see
    ``weights_fingerprint``), and the index of the device of the inputs. It is the same in every process and rank, and
    after save and load.
    """
    return _Walk(program).fingerprint()


def graph_steps(program: ExportedProgram) -> list[Step]:
    """Return the nodes in order, to find the first difference of two programs."""
    walk = _Walk(program)
    walk.fingerprint()
    return walk.steps


class _Walk:
    """One pass over a program. The digest of a value is computed from the digests of its inputs."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.symbols = Symbols()
        self.steps: list[Step] = []
        self.home = _home(program)

    def fingerprint(self) -> str:
        program, signature = self.program, self.program.graph_signature
        pairs = list(zip(_placeholders(program.graph_module), signature.input_specs, strict=True))
        inputs = [self._input(node, spec) for node, spec in pairs]
        needed = [node.users or spec.kind is InputKind.USER_INPUT for node, spec in pairs]
        used = sorted(given for given, need in zip(inputs, needed, strict=True) if need)
        outputs = [(spec.kind.name, spec.target or "") for spec in signature.output_specs]
        computed = self._graph(program.graph_module, inputs)
        ranges = sorted(
            (str(self.symbols.names.get(symbol, "unbacked")), str(bounds.lower), str(bounds.upper))
            for symbol, bounds in program.range_constraints.items()
        )
        structure = (str(program.call_spec.in_spec), str(program.call_spec.out_spec))
        return digest(computed, used, outputs, ranges, sorted(program_guards(program)), structure)

    def _input(self, node: Node, spec: InputSpec) -> str:
        value = node.meta.get("val")
        stated: object
        if isinstance(value, torch.Tensor):
            stated = canonical_tensor(value, self.symbols, self.home)
        else:
            stated = (
                self.symbols.canonical(value) if isinstance(value, torch.SymInt) else canonical(value, str, self.home)
            )
        if spec.kind is InputKind.USER_INPUT:
            position = [s.arg.name for s in self.program.graph_signature.input_specs if s.kind is spec.kind]
            return digest("input", position.index(spec.arg.name), stated)
        return digest(spec.kind.name, spec.persistent, self._identity(spec), stated)

    def _identity(self, spec: InputSpec) -> str:
        """Return the name of a loadable parameter or buffer, the values of a constant."""
        constant = self.program.constants.get(spec.target or "")
        if isinstance(constant, torch.Tensor):
            return f"{spec.target if spec.kind is InputKind.BUFFER else ''}={tensor_digest(constant)}"
        return f"{spec.target if constant is None else type(constant).__name__}"

    def _graph(self, module: GraphModule, inputs: list[str]) -> str:
        """Return the digest of the results and effects of ``module`` for ``inputs``."""
        values: dict[Node, str] = {}
        memory, ordered, checked, written = Memory(), list[str](), list[str](), dict[str, str]()

        def read(node: Node) -> str:
            version = memory.version(node)
            return digest(values[node], version) if version else values[node]

        places = dict(zip(_placeholders(module), inputs, strict=True))
        for node in module.graph.nodes:
            if node in places:
                values[node] = places[node]
            elif node.op == "get_attr":
                values[node] = self._attribute(module, str(node.target))
            elif node.op == "call_function":
                values[node] = digest(_name(node.target), self._arguments(node, read), ordered[-1:] * is_ordered(node))
                self._remember(node, values[node])
                memory.run(node, values[node])
                if is_ordered(node):
                    ordered.append(values[node])
                if is_checked(node):
                    checked.append(values[node])
                for target in writes(node):
                    if target in places:
                        written[places[target]] = values[node]
            elif node.op == "output":
                returned = canonical(node.args[0], read, self.home)
        return digest(returned, ordered, sorted(checked), sorted(written.items()))

    def _arguments(self, node: Node, read: Any) -> tuple[object, ...]:
        """Return the arguments by schema name, without those equal to their default."""
        schema = schema_of(node)
        named: dict[str, Any] = dict(node.kwargs)
        defaults: dict[str, Any] = {}
        for position, argument in enumerate(schema.arguments if schema is not None else ()):
            if position < len(node.args):
                named[argument.name] = node.args[position]
            if argument.has_default_value():
                defaults[argument.name] = argument.default_value
        if schema is None:
            named |= {str(position): value for position, value in enumerate(node.args)}
        forms = {name: canonical(value, read, self.home) for name, value in named.items()}
        return tuple(
            (name, value)
            for name, value in sorted(forms.items())
            if name not in defaults or value != canonical(defaults[name], read, self.home)
        )

    def _attribute(self, module: GraphModule, name: str) -> str:
        held: Any = module
        for part in name.split("."):
            held = getattr(held, part)
        if isinstance(held, GraphModule):
            return self._graph(held, [f"input {i}" for i in range(len(_placeholders(held)))])
        return digest(canonical(held, str, self.home))

    def _remember(self, node: Node, value: str) -> None:
        file, line = source(node)
        self.steps.append(Step(value, f"{_name(node.target)}" + (f" at {Path(file).name}:{line}" if file else "")))


def _placeholders(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _home(program: ExportedProgram) -> torch.device:
    """Return the device of the first tensor input."""
    for node in _placeholders(program.graph_module):
        if isinstance(node.meta.get("val"), torch.Tensor):
            return torch.device(node.meta["val"].device)
    return torch.device("cpu")


def _name(target: Any) -> str:
    if hasattr(target, "namespace"):
        return str(target)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
