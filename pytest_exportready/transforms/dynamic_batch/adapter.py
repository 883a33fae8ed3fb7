"""make_batch_dynamic: from a program for one batch size to one for every size, proved or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.fx import GraphModule, Node

from pytest_exportready.analysis.execution.input_variants import resized, variations
from pytest_exportready.analysis.execution.pytree import flatten, unflatten
from pytest_exportready.analysis.program.node_effects import schema_of, shares, writes
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import few
from pytest_exportready.transforms.dynamic_batch.batch_constants import batch_numbers, unread
from pytest_exportready.transforms.dynamic_batch.batch_rows import (
    Leaves,
    Rows,
    agree,
    chosen,
    first_apart,
    in_batches,
    rows_of,
    run,
)
from pytest_exportready.transforms.dynamic_batch.errors import BRANCHES, FROM_SOURCE, NotBatchDynamic
from pytest_exportready.transforms.dynamic_batch.rewriting import Name, name_of, rewrite
from pytest_exportready.transforms.dynamic_batch.size_hypotheses import World, stand_in, worlds
from pytest_exportready.transforms.dynamic_batch.size_interpretations import Reading

SIZES = (1, 2, 7, 16)  # at which the result is held against the original


def make_batch_dynamic(
    exported_program: ExportedProgram, batch_dim: int = 0, *, without_source: bool = False
) -> ExportedProgram:
    """A program for every batch size (1 and up) from one that was exported, without dynamic shapes, at a single size.

    A program loaded from a ``.pt2`` will do, if its example inputs were saved with it and the source lines that its
    nodes name can be read: nothing in a graph tells of a branch on the size of the batch that was not taken. With
    ``without_source=True`` it is you who says that there is none.

    The batch is the size of dimension ``batch_dim`` of the first input that has one, and of every input that has the
    same. Sizes in the graph that stem from it are made from the input; the result is exported anew and held, at 1, 2,
    7 and 16 rows, against the original program run on as many rows at a time as it was made for. Weights are shared
    with ``exported_program``, which stays as it is.

    Raises NotBatchDynamic, naming node and line, for what cannot be proved: rows that influence each other, Python
    numbers and branches that stem from the batch, source that cannot be read, state that is written, random numbers.
    """
    return _Adapter(exported_program, batch_dim).adapted(without_source)


class _Adapter:
    def __init__(self, program: ExportedProgram, batch_dim: int) -> None:
        if program.range_constraints:
            raise NotBatchDynamic("the program has dynamic dimensions already", FROM_SOURCE)
        if program.example_inputs is None:
            raise NotBatchDynamic("the program was saved without example inputs", "set program.example_inputs")
        self.program = program
        self.module = _graph(program)
        leaves, self.spec = flatten((program.example_inputs[0], dict(program.example_inputs[1])))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > batch_dim]
        if not tensors or not tensors[0].shape[batch_dim]:
            raise NotBatchDynamic(
                f"no input is a tensor with rows in dimension {batch_dim}", "give the right batch_dim"
            )
        self.batch = tensors[0].shape[batch_dim]
        self.dim = batch_dim
        self.places = [
            Rows(batch_dim, 1)
            if isinstance(leaf, torch.Tensor) and leaf.dim() > batch_dim and leaf.shape[batch_dim] == self.batch
            else None
            for leaf in leaves
        ]
        self.inputs = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        self.source = next(n for n, place in zip(self.inputs, self.places, strict=True) if place is not None).name

    def adapted(self, without_source: bool) -> ExportedProgram:
        _refuse_effects(self.module)
        if not without_source and (unseen := unread(self.module)):
            node, why = unseen
            raise NotBatchDynamic(f"whether the batch decides a branch cannot be seen: {why}", BRANCHES, node)
        instead = stand_in(self.module, self.batch)
        inputs = dict(zip(self.inputs, self._example(instead), strict=True))
        found = worlds(self.module, inputs, self.batch, instead, self.dim)
        for node, problem in batch_numbers(self.program, self.module, self.batch, self.dim):
            raise NotBatchDynamic(
                problem, "take the number from the input in forward as a tensor, and " + FROM_SOURCE, node
            )
        output = next(node for node in found if node.op == "output")
        nodes = {node.name: rows_of(possible[0].value, instead) for node, possible in found.items() if possible}
        many = max(*SIZES, 2 * self.batch)
        outcomes = [(world, self._outputs(world, instead)) for world in found[output]]
        leaves = self._rows(many)
        refused: NotBatchDynamic | None = None
        for world, outputs in outcomes:
            try:
                expected = self._expected(leaves, outputs, many, nodes)
                return self._proved(world, leaves, expected, outputs, nodes, instead)
            except NotBatchDynamic as error:
                refused = refused or error
        raise refused or NotBatchDynamic("no reading of its sizes fits", FROM_SOURCE, output)

    def _outputs(self, world: World, instead: int) -> list[Rows | None]:
        return [rows_of(value, instead) for value in flatten(world.value)[0]]

    def _example(self, size: int) -> Leaves:
        at = {(i, place.dim): size for i, place in enumerate(self.places) if place is not None}
        return flatten(resized(self._call(), at))[0]

    def _call(self) -> Any:
        args, kwargs = self.program.example_inputs or ((), {})
        return args, dict(kwargs)

    def _rows(self, many: int) -> Leaves:
        """Fresh inputs of so many different rows, which the original program takes."""
        leaves = self._example(many)
        first = range(self.batch)
        for call in variations(unflatten(leaves, self.spec), seed=5):
            fresh = flatten(call)[0]
            try:
                answer = run(self.module, chosen(fresh, self.places, first))
            except Exception:
                continue
            if not any(isinstance(v, torch.Tensor) and v.is_floating_point() and v.isnan().any() for v in answer):
                return fresh
        raise NotBatchDynamic(
            "the program runs on no other values than its example: nothing could be proved", FROM_SOURCE
        )

    def _expected(
        self, leaves: Leaves, outputs: list[Rows | None], many: int, nodes: Mapping[str, Rows | None]
    ) -> Leaves:
        """What the original gives for every row.

        Raises NotBatchDynamic when a row's answer depends on the other rows, or on its own place among them.
        """
        expected = in_batches(self.module, leaves, self.places, outputs, self.batch, range(many))
        turned = [*range(1, many), 0]
        again = in_batches(self.module, leaves, self.places, outputs, self.batch, turned)
        if agree(chosen(expected, outputs, turned), again):
            here = chosen(leaves, self.places, range(self.batch))
            there = chosen(leaves, self.places, range(1, self.batch + 1))
            same = [(row + 1, row) for row in range(self.batch - 1)]
            node = first_apart((self.module, here), (self.module, there), nodes, same)
            raise NotBatchDynamic("the rows of the batch influence each other, or depend on their place in it",
                                  "compute each row from itself alone, or " + FROM_SOURCE, node)  # fmt: skip
        return expected

    def _proved(
        self, world: World, leaves: Leaves, expected: Leaves, outputs: list[Rows | None],
        nodes: Mapping[str, Rows | None], instead: int,
    ) -> ExportedProgram:  # fmt: skip
        readings = {name_of(self.module, node): reading for node, reading in world.readings.items()}
        module = _graph(self.program)
        rewrite(module, readings, self.source, self.dim)
        self._verify(module, leaves, expected, outputs, nodes, readings)
        program = self._exported(module, instead)
        _keep_places(self.program, program)
        self._verify(_graph(program), leaves, expected, outputs, {}, readings)
        return program

    def _verify(
        self, module: GraphModule, leaves: Leaves, expected: Leaves, outputs: list[Rows | None],
        nodes: Mapping[str, Rows | None], readings: Mapping[Name, Reading],
    ) -> None:  # fmt: skip
        for size in SIZES:
            given = chosen(leaves, self.places, range(size))
            try:
                actual = run(module, given)
                problem = agree(chosen(expected, outputs, range(size)), actual)
            except Exception as error:
                problem = exception_text(error, 200)
            if problem:
                node = self._apart(module, leaves, given, size, nodes)
                doubt = f"; sizes taken from the batch: {few(name for _, name in readings)}" if readings else ""
                raise NotBatchDynamic(
                    f"with {size} rows the program is not what it is with {self.batch}: {problem}{doubt}",
                    FROM_SOURCE,
                    node,
                )

    def _apart(
        self, module: GraphModule, leaves: Leaves, given: Leaves, size: int, nodes: Mapping[str, Rows | None]
    ) -> Node | None:
        here = chosen(leaves, self.places, range(self.batch))
        both = [(row, row) for row in range(min(size, self.batch))]
        try:
            return first_apart((self.module, here), (module, given), nodes, both) if nodes else None
        except Exception:
            return None

    def _exported(self, module: GraphModule, size: int) -> ExportedProgram:
        leaves = self._example(size)
        args, kwargs = unflatten(leaves, self.spec)
        shapes, batch = ShapesCollection(), Dim("batch", min=1)  # type: ignore[no-untyped-call]
        for leaf, place in zip(leaves, self.places, strict=True):
            if place is not None:
                shapes[leaf] = {place.dim: batch}
        try:
            spec = shapes.dynamic_shapes(module, args, kwargs)  # type: ignore[no-untyped-call]
            return torch.export.export(module, args, kwargs, dynamic_shapes=spec)
        except Exception as error:
            raise NotBatchDynamic(f"torch.export refuses it: {exception_text(error, 200)}", FROM_SOURCE) from error


def _graph(program: ExportedProgram) -> GraphModule:
    """The graph to run, with the weights of ``program`` and none of its guards."""
    module: Any = program.module(check_guards=False)
    assert isinstance(module, GraphModule)
    return module


def _keep_places(before: ExportedProgram, after: ExportedProgram) -> None:
    """Give the nodes of the new program the lines and modules of the old one's, where they are the same calls."""
    old = {node.name: node for node in before.graph.nodes if node.op == "call_function"}
    for node in after.graph.nodes:
        if node.name in old and old[node.name].target is node.target:
            kept = {
                key: old[node.name].meta[key]
                for key in ("stack_trace", "nn_module_stack")
                if key in old[node.name].meta
            }
            node.meta.update(kept)


def _refuse_effects(module: GraphModule) -> None:
    """Raises NotBatchDynamic for what makes one run differ from the next."""
    graphs = [inner.graph for inner in module.modules() if isinstance(inner, GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if node.op != "call_function" or schema_of(node) is None:
            continue
        if any(_root(target).op in ("get_attr", "placeholder") for target in writes(node)):
            raise NotBatchDynamic("it writes into state or an input of the program",
                                  "call model.eval(), or give the state as an input and return it", node)  # fmt: skip
        seeded = torch.Tag.nondeterministic_seeded in node.target.tags
        trains = [value for name, value in _flags(node) if name in ("training", "train")]
        if seeded and (not trains or any(trains)) and not _without_dropout(node):
            raise NotBatchDynamic(
                "it draws random numbers: no two runs agree", "call model.eval() before the export", node
            )


def _root(node: Node) -> Node:
    while node.op == "call_function" and (sources := list(shares(node))):
        node = sources[0]
    return node


def _flags(node: Node) -> Sequence[tuple[str, Any]]:
    declared = [argument.name for argument in schema_of(node).arguments]
    return [*zip(declared, node.args, strict=False), *node.kwargs.items()]


def _without_dropout(node: Node) -> bool:
    """Attention and recurrent layers are tagged as random, and draw for their dropout only."""
    given = dict(_flags(node))
    return any("dropout" in argument.name for argument in schema_of(node).arguments) and not any(
        value for name, value in given.items() if "dropout" in name
    )
