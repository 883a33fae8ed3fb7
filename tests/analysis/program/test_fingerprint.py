"""The fingerprint of a program: the same for the same meaning, another for any other."""

from __future__ import annotations

import io
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_programs import PROGRAMS, export
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.analysis.program.node_effects import is_ordered, writes

NAMES = sorted(PROGRAMS)


@pytest.fixture(scope="module")
def programs() -> dict[str, ExportedProgram]:
    return {name: export(name) for name in NAMES}


@pytest.fixture(scope="module")
def known(programs: dict[str, ExportedProgram]) -> dict[str, str]:
    return {name: graph_fingerprint(program) for name, program in programs.items()}


def test_different_programs_have_different_fingerprints(known: dict[str, str]) -> None:
    assert len(set(known.values())) == len(NAMES) == 16


@pytest.mark.parametrize("name", NAMES)
def test_exported_again(name: str, known: dict[str, str]) -> None:
    torch.manual_seed(99)  # other weights
    assert graph_fingerprint(export(name)) == known[name]


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(name: str, programs: dict[str, ExportedProgram], known: dict[str, str]) -> None:
    file = io.BytesIO()
    torch.export.save(programs[name], file)
    file.seek(0)
    assert graph_fingerprint(torch.export.load(file)) == known[name]


def test_in_another_process_with_another_hash_seed(known: dict[str, str]) -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, sys.argv[1])\n"
        "from exported_programs import PROGRAMS, export\n"
        "from pytest_exportready.analysis.program.fingerprint import graph_fingerprint\n"
        "for name in sorted(PROGRAMS, reverse=True): print(name, graph_fingerprint(export(name)))\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert dict(line.split() for line in printed.splitlines()) == known


@pytest.mark.parametrize("name", NAMES)
def test_names_traces_and_order_of_pure_nodes_do_not_count(name: str, known: dict[str, str]) -> None:
    program = export(name)
    graph, chance = program.graph, random.Random(name)
    for node in list(graph.nodes):
        if node.op == "call_function":
            node.name = f"renamed_{node.name}"
            node.meta["stack_trace"] = 'File "/elsewhere.py", line 1'
            node.meta["nn_module_stack"] = {}
    if not any(list(writes(node)) for node in graph.nodes if node.op == "call_function"):
        _shuffle(graph, chance)
    assert graph_fingerprint(program) == known[name]


def _shuffle(graph: torch.fx.Graph, chance: random.Random) -> None:
    movable = [n for n in graph.nodes if n.op == "call_function" and not is_ordered(n)]
    for node in chance.sample(movable, len(movable)):
        places = {n: i for i, n in enumerate(graph.nodes)}
        after = max((places[n] for n in node.all_input_nodes), default=-1)
        before = min(places[n] for n in [*node.users, graph.output_node()])
        allowed = [n for n, i in places.items() if after < i <= before and n.op != "placeholder" and n is not node]
        if allowed:
            chance.choice(allowed).prepend(node)


def test_defaults_written_out_and_dead_nodes_do_not_count(known: dict[str, str]) -> None:
    program = export("written")
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        node.kwargs = {"alpha": 1}
        with program.graph.inserting_after(node):
            program.graph.call_function(torch.ops.aten.relu.default, (node,))
    assert graph_fingerprint(program) == known["written"]


def test_every_change_of_meaning_is_seen(programs: dict[str, ExportedProgram], known: dict[str, str]) -> None:
    seen, missed = 0, []
    for name, program in programs.items():
        for words, undo in changes(program):
            if graph_fingerprint(program) == known[name]:
                missed.append(f"{name}: {words}")
            undo()
            seen += 1
        assert graph_fingerprint(program) == known[name], "the change was not undone"
    assert missed == []
    assert seen >= 200


Change = tuple[str, Callable[[], None]]


def changes(program: ExportedProgram) -> Iterator[Change]:
    """Changes of the meaning of ``program``, one at a time: what was done, and how it is undone."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if node.op == "call_function" and _counts(node):
                    yield from _of_node(node)
                elif node.op == "output" and isinstance(node.args[0], tuple) and len(set(node.args[0])) > 1:
                    yield "outputs reversed", _arguments(node, (tuple(reversed(node.args[0])),), {})
    yield from _of_inputs(program)
    yield from _of_signature(program)


def _counts(node: torch.fx.Node) -> bool:
    return bool(node.users) or bool(list(writes(node))) or "assert" in str(node.target)


def _of_node(node: torch.fx.Node) -> Iterator[Change]:
    args, kwargs = node.args, dict(node.kwargs)
    for position, value in enumerate(args):
        for other in _others(value):
            changed = (*args[:position], other, *args[position + 1 :])
            yield f"{node}: argument {position} {value} -> {other}", _arguments(node, changed, kwargs)
    for key, value in kwargs.items():
        for other in _others(value):
            yield f"{node}: {key}={value} -> {other}", _arguments(node, args, {**kwargs, key: other})
    if (
        len(args) > 1
        and isinstance(args[0], torch.fx.Node)
        and isinstance(args[1], torch.fx.Node)
        and args[0] != args[1]
    ):
        yield f"{node}: arguments swapped", _arguments(node, (args[1], args[0], *args[2:]), kwargs)
    target = node.target
    node.target = torch.ops.aten.sinh.default

    def undo() -> None:
        node.target = target

    yield f"{node}: another operator", undo


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
        yield int(value)
    elif isinstance(value, int):
        yield from (value + 1, float(value))
    elif isinstance(value, float):
        yield from (math.nextafter(value, math.inf), -value if value else -0.0)
    elif isinstance(value, torch.dtype):
        yield torch.float64 if value != torch.float64 else torch.float16
    elif isinstance(value, (list, tuple)) and value and all(isinstance(inner, int) for inner in value):
        yield [*value, 1]
        yield [value[0] + 1, *value[1:]]


def _arguments(node: torch.fx.Node, args: Any, kwargs: Any) -> Callable[[], None]:
    before = node.args, node.kwargs
    node.args, node.kwargs = args, kwargs

    def undo() -> None:
        node.args, node.kwargs = before

    return undo


def _of_inputs(program: ExportedProgram) -> Iterator[Change]:
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or (not node.users and not node.name.startswith(("x", "args"))):
            continue
        wanted = [value.to(torch.float16 if value.dtype != torch.float16 else torch.float32), value.unsqueeze(0)]
        if value.dim() > 1:
            wanted.append(value.transpose(0, 1).contiguous().transpose(0, 1))
        for other in wanted:
            if (other.dtype, other.shape, other.stride()) == (value.dtype, value.shape, value.stride()):
                continue
            node.meta["val"] = other

            def undo(node: torch.fx.Node = node, value: Any = value) -> None:
                node.meta["val"] = value

            yield f"{node} is {other.dtype}{list(other.shape)}{other.stride()}", undo


def _of_signature(program: ExportedProgram) -> Iterator[Change]:
    used = {node.name for node in program.graph.find_nodes(op="placeholder") if node.users}
    for spec in program.graph_signature.input_specs:
        if (
            spec.kind in (InputKind.PARAMETER, InputKind.BUFFER)
            and spec.arg.name in used
            and spec.persistent is not False
        ):
            target = spec.target
            spec.target = f"{target}_other"

            def undo(spec: Any = spec, target: Any = target) -> None:
                spec.target = target

            yield f"{target} has another name", undo
    for name, constant in list(program.constants.items()):
        if isinstance(constant, torch.Tensor) and constant.numel():
            program.constants[name] = constant.clone()
            program.constants[name].view(torch.uint8).reshape(-1)[-1] ^= 1

            def undo_constant(name: str = name, constant: torch.Tensor = constant) -> None:
                program.constants[name] = constant

            yield f"a bit of {name}", undo_constant
    for symbol, bounds in list(program.range_constraints.items()):
        program.range_constraints[symbol] = type(bounds)(bounds.lower + 1, bounds.upper)

        def undo_range(symbol: Any = symbol, bounds: Any = bounds) -> None:
            program.range_constraints[symbol] = bounds

        yield f"{symbol} begins one later", undo_range


def test_strides_of_the_example_count() -> None:
    convolution, image = torch.nn.Conv2d(2, 2, 3), torch.ones(1, 2, 4, 4)
    plain = torch.export.export(convolution, (image,))
    last = torch.export.export(convolution, (image.to(memory_format=torch.channels_last),))
    assert graph_fingerprint(plain) != graph_fingerprint(last)


def test_order_of_what_has_effects_counts() -> None:
    def program(first: bool) -> ExportedProgram:
        class Draws(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                if first:
                    a = torch.rand_like(x)
                    return a, torch.randn_like(x)
                b = torch.randn_like(x)
                return torch.rand_like(x), b

        return torch.export.export(Draws(), (torch.ones(2),))

    assert graph_fingerprint(program(True)) != graph_fingerprint(program(False))


def test_a_value_read_before_and_after_a_write_differs() -> None:
    def program(late: bool) -> ExportedProgram:
        class Writes(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = x * 2
                view = y.view(-1)
                early = view + 1
                y.mul_(3)
                return view + 1 if late else early

        return torch.export.export(Writes(), (torch.ones(2),))

    assert graph_fingerprint(program(True)) != graph_fingerprint(program(False))
