"""make_batch_dynamic: turn a program for one batch size into a verified program for every batch size."""

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
    chosen,
    difference,
    first_difference,
    in_batches,
    rows_of,
    run,
)
from pytest_exportready.transforms.dynamic_batch.errors import BRANCHES, FROM_SOURCE, NotBatchDynamic
from pytest_exportready.transforms.dynamic_batch.rewriting import Name, name_of, rewrite
from pytest_exportready.transforms.dynamic_batch.size_hypotheses import Hypothesis, hypotheses, stand_in
from pytest_exportready.transforms.dynamic_batch.size_interpretations import Interpretation

SIZES = (1, 2, 7, 16)  # at which the result is compared with the original


def make_batch_dynamic(
    exported_program: ExportedProgram, batch_dim: int = 0, *, without_source: bool = False
) -> ExportedProgram:
    """Return a program for every batch size from 1 from one that was exported at a single size.

    Sizes in the graph that come from the batch are computed from the input. The result is exported again and compared,
    at 1, 2, 7 and 16 rows, with the original program run on as many rows at a time as it was exported with.

    Args:
        exported_program: A program without dynamic shapes, with its example inputs. It may be loaded from a ``.pt2``.
            It is not changed, and shares its weights with the result.
        batch_dim: The batch is the size of this dimension of the first input that has it, and of every input with the
            same size there.
        without_source: Accept a program whose source lines cannot be read. A graph does not show branches on the batch
            size that were not taken; with this argument you assert that ``forward`` has none.

    Raises:
        NotBatchDynamic: The result cannot be verified: rows influence each other, Python numbers or branches depend on
            the batch size, the source cannot be read, state is written, or random numbers are drawn. Names node and
            line.
    """
    return _Adapter(exported_program, batch_dim).adapted(without_source)


class _Adapter:
    def __init__(self, program: ExportedProgram, batch_dim: int) -> None:
        if program.range_constraints:
            raise NotBatchDynamic("the program already has dynamic dimensions", FROM_SOURCE)
        if program.example_inputs is None:
            raise NotBatchDynamic("the program was saved without example inputs", "Set `program.example_inputs`.")
        self.program = program
        self.module = _graph(program)
        leaves, self.spec = flatten((program.example_inputs[0], dict(program.example_inputs[1])))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > batch_dim]
        if not tensors or not tensors[0].shape[batch_dim]:
            raise NotBatchDynamic(f"no input is a tensor with rows in dimension {batch_dim}", "Correct `batch_dim`.")
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
            raise NotBatchDynamic(f"branches on the batch size cannot be ruled out, because {why}", BRANCHES, node)
        instead = stand_in(self.module, self.batch)
        inputs = dict(zip(self.inputs, self._example(instead), strict=True))
        found = hypotheses(self.module, inputs, self.batch, instead, self.dim)
        for node, problem in batch_numbers(self.program, self.module, self.batch, self.dim):
            raise NotBatchDynamic(problem, f"Compute the number from the input as a tensor. {FROM_SOURCE}", node)
        output = next(node for node in found if node.op == "output")
        nodes = {node.name: rows_of(possible[0].value, instead) for node, possible in found.items() if possible}
        many = max(*SIZES, 2 * self.batch)
        outcomes = [(hypothesis, self._outputs(hypothesis, instead)) for hypothesis in found[output]]
        leaves = self._rows(many)
        refused: NotBatchDynamic | None = None
        for hypothesis, outputs in outcomes:
            try:
                expected = self._expected(leaves, outputs, many, nodes)
                return self._proved(hypothesis, leaves, expected, outputs, nodes, instead)
            except NotBatchDynamic as error:
                refused = refused or error
        raise refused or NotBatchDynamic("no interpretation of its sizes fits", FROM_SOURCE, output)

    def _outputs(self, hypothesis: Hypothesis, instead: int) -> list[Rows | None]:
        return [rows_of(value, instead) for value in flatten(hypothesis.value)[0]]

    def _example(self, size: int) -> Leaves:
        at = {(i, place.dim): size for i, place in enumerate(self.places) if place is not None}
        return flatten(resized(self._call(), at))[0]

    def _call(self) -> Any:
        args, kwargs = self.program.example_inputs or ((), {})
        return args, dict(kwargs)

    def _rows(self, many: int) -> Leaves:
        """Return random inputs of this many different rows that the original program accepts."""
        leaves = self._example(many)
        first = range(self.batch)
        for call in variations(unflatten(leaves, self.spec), seed=5):
            fresh = flatten(call)[0]
            try:
                outputs = run(self.module, chosen(fresh, self.places, first))
            except Exception:
                continue
            if not any(isinstance(v, torch.Tensor) and v.is_floating_point() and v.isnan().any() for v in outputs):
                return fresh
        raise NotBatchDynamic("the program runs on its example only, so that nothing can be verified", FROM_SOURCE)

    def _expected(
        self, leaves: Leaves, outputs: list[Rows | None], many: int, nodes: Mapping[str, Rows | None]
    ) -> Leaves:
        """Return the output of the original for every row.

        Raise NotBatchDynamic if the output of a row depends on the other rows or on its position.
        """
        expected = in_batches(self.module, leaves, self.places, outputs, self.batch, range(many))
        turned = [*range(1, many), 0]
        again = in_batches(self.module, leaves, self.places, outputs, self.batch, turned)
        if difference(chosen(expected, outputs, turned), again):
            here = chosen(leaves, self.places, range(self.batch))
            there = chosen(leaves, self.places, range(1, self.batch + 1))
            same = [(row + 1, row) for row in range(self.batch - 1)]
            node = first_difference((self.module, here), (self.module, there), nodes, same)
            raise NotBatchDynamic("the output of a row depends on the other rows of the batch, or on its position",
                                  f"Compute each row from itself alone. {FROM_SOURCE}", node)  # fmt: skip
        return expected

    def _proved(
        self, hypothesis: Hypothesis, leaves: Leaves, expected: Leaves, outputs: list[Rows | None],
        nodes: Mapping[str, Rows | None], instead: int,
    ) -> ExportedProgram:  # fmt: skip
        interpretations = {
            name_of(self.module, node): interpretation for node, interpretation in hypothesis.interpretations.items()
        }
        module = _graph(self.program)
        rewrite(module, interpretations, self.source, self.dim)
        self._verify(module, leaves, expected, outputs, nodes, interpretations)
        program = self._exported(module, instead)
        _keep_places(self.program, program)
        self._verify(_graph(program), leaves, expected, outputs, {}, interpretations)
        return program

    def _verify(
        self, module: GraphModule, leaves: Leaves, expected: Leaves, outputs: list[Rows | None],
        nodes: Mapping[str, Rows | None], interpretations: Mapping[Name, Interpretation],
    ) -> None:  # fmt: skip
        for size in SIZES:
            given = chosen(leaves, self.places, range(size))
            try:
                actual = run(module, given)
                problem = difference(chosen(expected, outputs, range(size)), actual)
            except Exception as error:
                problem = exception_text(error, 200)
            if problem:
                node = self._first_difference(module, leaves, given, size, nodes)
                doubt = f"; sizes from the batch: {few(name for _, name in interpretations)}" if interpretations else ""
                raise NotBatchDynamic(
                    f"with {size} rows the output differs from that with {self.batch} rows: {problem}{doubt}",
                    FROM_SOURCE,
                    node,
                )

    def _first_difference(
        self, module: GraphModule, leaves: Leaves, given: Leaves, size: int, nodes: Mapping[str, Rows | None]
    ) -> Node | None:
        here = chosen(leaves, self.places, range(self.batch))
        both = [(row, row) for row in range(min(size, self.batch))]
        try:
            return first_difference((self.module, here), (module, given), nodes, both) if nodes else None
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
            raise NotBatchDynamic(f"torch.export fails: {exception_text(error, 200)}", FROM_SOURCE) from error


def _graph(program: ExportedProgram) -> GraphModule:
    """Return the graph with the weights of ``program`` and without its guards."""
    module: Any = program.module(check_guards=False)
    assert isinstance(module, GraphModule)
    return module


def _keep_places(before: ExportedProgram, after: ExportedProgram) -> None:
    """Copy lines and modules of the old nodes to the new ones that are the same calls."""
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
    """Raise NotBatchDynamic if one run differs from the next."""
    graphs = [inner.graph for inner in module.modules() if isinstance(inner, GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if node.op != "call_function" or schema_of(node) is None:
            continue
        if any(_root(target).op in ("get_attr", "placeholder") for target in writes(node)):
            fix = "Call `model.eval()`, or pass the state as an input and return it."
            raise NotBatchDynamic("it writes into state or an input of the program", fix, node)
        seeded = torch.Tag.nondeterministic_seeded in node.target.tags
        trains = [value for name, value in _flags(node) if name in ("training", "train")]
        if seeded and (not trains or any(trains)) and not _without_dropout(node):
            raise NotBatchDynamic(
                "it draws random numbers, so that no two runs agree", "Call `model.eval()` before the export.", node
            )


def _root(node: Node) -> Node:
    while node.op == "call_function" and (sources := list(shares(node))):
        node = sources[0]
    return node


def _flags(node: Node) -> Sequence[tuple[str, Any]]:
    declared = [argument.name for argument in schema_of(node).arguments]
    return [*zip(declared, node.args, strict=False), *node.kwargs.items()]


def _without_dropout(node: Node) -> bool:
    """Return whether it has dropout of 0: attention and recurrent layers are tagged as random for dropout only."""
    given = dict(_flags(node))
    return any("dropout" in argument.name for argument in schema_of(node).arguments) and not any(
        value for name, value in given.items() if "dropout" in name
    )
