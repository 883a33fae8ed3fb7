"""make_batch_dynamic is right at every batch size, or refuses and says where; the eager module is the judge."""

from __future__ import annotations

import io
import linecache
from collections.abc import Callable, Iterator

import pytest
import torch
from batch_corpus import CORPUS, Entry
from batch_held_out import HELD_OUT
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from pytest_exportready import NotBatchDynamic, make_batch_dynamic
from pytest_exportready.analysis.program.nodes import graphs, source

ENTRIES = {**CORPUS, **HELD_OUT}
REFUSED = {name: entry for name, entry in ENTRIES.items() if not entry.adapts}


def exported(entry: Entry) -> tuple[nn.Module, ExportedProgram]:
    module = entry.module()
    return module, torch.export.export(module, entry.inputs(entry.shapes[0][0]))


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.adapts])
def test_right_at_every_size(name: str) -> None:
    """The eager module gives the same with any number of rows, and it never saw the adapter."""
    entry = ENTRIES[name]
    module, program = exported(entry)
    adapted = make_batch_dynamic(program).module()
    for batch in (1, 2, 3, 7, 16):
        inputs = entry.inputs(batch)
        with torch.no_grad():
            torch.testing.assert_close(adapted(*inputs), module(*inputs))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_place(name: str) -> None:
    """What no rewriting of sizes makes right names a node, an operator and the line."""
    _, program = exported(REFUSED[name])
    with pytest.raises(NotBatchDynamic, match="Fix: ") as refused:
        make_batch_dynamic(program)
    nodes = [node for graph in graphs(program) for node in graph.graph.nodes]
    assert refused.value.node in {node.name for node in nodes}
    assert refused.value.operator
    assert (refused.value.file.endswith(".py") and refused.value.line) or refused.value.node == "output"


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, *, mask: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": self.linear(x).view(x.shape[0], 2, 2) * mask["m"][:, None, None] + torch.zeros(x.shape[0], 1, 1)}


def small(batch: int = 3) -> tuple[Small, ExportedProgram]:
    module = Small().eval()
    return module, torch.export.export(module, (torch.randn(batch, 4),), {"mask": {"m": torch.randn(batch)}})


def test_from_a_file_and_to_a_file() -> None:
    """A program loaded from bytes is adapted, keeps its signature, and the result can be saved and loaded."""
    module, program = small()
    for _ in range(2):
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        program = torch.export.load(file)
        if not program.range_constraints:
            program = make_batch_dynamic(program)
    x, mask = torch.randn(9, 4), {"m": torch.randn(9)}
    torch.testing.assert_close(program.module()(x, mask=mask), module(x, mask=mask))


def test_weights_are_shared_and_the_program_is_left_alone() -> None:
    """The same tensors under the same names; the original's graph is what it was."""
    _, program = small()
    before = str(program.graph)
    adapted = make_batch_dynamic(program)
    assert str(program.graph) == before
    assert {source(node)[0] for node in adapted.graph.nodes if node.name in ("linear", "view")} == {__file__}
    assert adapted.state_dict.keys() == program.state_dict.keys()
    for name, tensor in adapted.state_dict.items():
        assert tensor.data_ptr() == program.state_dict[name].data_ptr()


def test_another_batch_dimension() -> None:
    """The batch may be in dimension 1."""

    class Second(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            t, b, c = x.shape
            return x + torch.zeros(t, b, c)

    adapted = make_batch_dynamic(torch.export.export(Second(), (torch.randn(5, 3, 4),)), batch_dim=1)
    x = torch.randn(5, 8, 4)
    torch.testing.assert_close(adapted.module()(x), x)


class Inner(nn.Module):
    def forward(self, x: Tensor, count: float) -> Tensor:
        return x * count


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x.shape[0] * 0.3)


def test_a_number_handed_to_a_submodule() -> None:
    """Made in one forward, computed with in another."""
    with pytest.raises(NotBatchDynamic, match="may come from the batch size"):
        make_batch_dynamic(torch.export.export(Outer(), (torch.randn(3, 4),)))


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.shape[0]


@pytest.fixture
def no_source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from pytest_exportready.analysis.source.line_context import running

    monkeypatch.setattr(linecache, "getlines", lambda *args: [])
    running.cache_clear()
    yield
    running.cache_clear()


@pytest.mark.usefixtures("no_source")
def test_a_number_without_its_source() -> None:
    """Where the source cannot be read, a number is judged by what it is."""
    program = torch.export.export(Scaled(), (torch.randn(6, 4),))
    with pytest.raises(NotBatchDynamic, match="may come from the batch size 6"):
        make_batch_dynamic(program, without_source=True)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 4:
            x = x * 2
        return x.reshape(6, 2, 2)


@pytest.mark.usefixtures("no_source")
def test_a_branch_without_its_source() -> None:
    """It cannot be seen, and so the program is refused, unless the caller answers for it."""
    program = torch.export.export(Branches(), (torch.randn(6, 4),))
    with pytest.raises(NotBatchDynamic, match=r"because .*test_make_batch_dynamic\.py cannot be read\. Fix: "):
        make_batch_dynamic(program)
    assert make_batch_dynamic(program, without_source=True).module()(torch.ones(2, 4)).shape == (2, 2, 2)


@pytest.mark.parametrize("trace", ["", 'File "<stdin>", line 1, in forward\n    x * 2'])
def test_a_program_without_stack_traces(trace: str) -> None:
    """Or with such as name no file."""
    program = torch.export.export(Branches(), (torch.randn(6, 4),))
    for node in program.graph.nodes:
        node.meta["stack_trace"] = trace
    with pytest.raises(NotBatchDynamic, match="branches on the batch size cannot be ruled out"):
        make_batch_dynamic(program)


def test_layers_of_torch_alone_need_no_source_of_the_users() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (torch.randn(6, 4),))
    for node in program.graph.nodes:
        trace = str(node.meta.get("stack_trace") or "").splitlines()
        node.meta["stack_trace"] = "\n".join(trace[-2:])
    assert make_batch_dynamic(program).module()(torch.ones(2, 4)).shape == (2, 4)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.Dropout().train(), "random numbers"),
        (nn.BatchNorm1d(4).train(), "writes into state"),
    ],
    ids=["dropout", "batch norm"],
)
def test_left_in_training(module: nn.Module, says: str) -> None:
    """What differs from run to run cannot be compared."""
    with pytest.raises(NotBatchDynamic, match=says):
        make_batch_dynamic(torch.export.export(module, (torch.randn(3, 4),)))


def test_what_it_does_not_take() -> None:
    """Programs that are dynamic already, inputs without a batch."""
    x = torch.randn(3, 4)
    dynamic = torch.export.export(nn.Linear(4, 4), (x,), dynamic_shapes=({0: Dim("batch")},))
    with pytest.raises(NotBatchDynamic, match="already has dynamic dimensions"):
        make_batch_dynamic(dynamic)
    with pytest.raises(NotBatchDynamic, match="dimension 2"):
        make_batch_dynamic(torch.export.export(nn.Linear(4, 4), (x,)), batch_dim=2)


@pytest.mark.parametrize("rows", [lambda x: 4, lambda x: x.shape[0]], ids=["a constant", "the batch size"])
def test_the_most_precise_problem_is_reported(rows: Callable[[Tensor], int]) -> None:
    """Whichever interpretation of the sizes is tried first: one fails, the other mixes rows."""

    class Mixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(6, rows(x))

    with pytest.raises(NotBatchDynamic, match="moves elements of one row into another"):
        make_batch_dynamic(torch.export.export(Mixed(), (torch.randn(4, 6),)))
