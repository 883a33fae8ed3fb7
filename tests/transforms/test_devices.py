"""A program freed of its device gives the same where it was made, and runs on other devices, reloaded too."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from exported_programs import PROGRAMS, Lambda, X, export
from torch import Tensor
from torch.export import Dim, ExportedProgram

from pytest_exportready.analysis.execution.pytree import flatten, map_tensors
from pytest_exportready.analysis.processes.child import in_child
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.analysis.program.nodes import operator_name
from pytest_exportready.transforms.devices import DeviceBaked, literal_devices, purify_devices

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # torch's own, when it copies a program
_VALUES = {"branch", "chosen"}  # they ask for values, which the meta device does not have


def reloaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def many(m: Any, x: Tensor) -> Tensor:
    y = x + torch.zeros(3, device=x.device) + torch.arange(3, device=x.device) + torch.tensor([1.0, 2.0, 3.0]).to(x)
    y = y.to(x.device) * torch.full((x.shape[0], 1), 2.0, device=x.device) + torch.eye(3, device=x.device)[0]
    y = y + torch.ones(3, device=x.device, dtype=torch.float64).to(x.device, torch.float32) + m.plain
    y = y + torch.empty(3, device=x.device).fill_(2) + torch.scalar_tensor(3.0, device=x.device)
    return (y + torch.zeros_like(x, device=x.device) + x.new_ones(3, device=x.device)).cpu()


@pytest.fixture(scope="module")
def baked() -> ExportedProgram:
    model = Lambda(many)
    model.plain = torch.tensor([5.0, 6.0, 7.0])
    return torch.export.export(model, (X,), dynamic_shapes={"args": ({0: Dim("batch")},)})


def on_meta(program: ExportedProgram, *args: Any, **kwargs: Any) -> list[Any]:
    given, named = map_tensors(lambda t: t.to("meta"), (args, kwargs))
    with torch.no_grad():
        return flatten(program.module().to("meta")(*given, **named))[0]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_answer_stays_to_the_bit_and_follows_the_device(name: str) -> None:
    _, args, kwargs, _ = PROGRAMS[name]()
    program = export(name)
    before = graph_fingerprint(program)
    if name == "autocast":
        with pytest.raises(DeviceBaked, match=r"programs\.py:\d+.*has the fixed device cpu"):
            purify_devices(program)
        return
    pure = reloaded(purify_devices(program))
    answers = []
    for one in (program, pure):
        torch.manual_seed(0)
        answers.append(flatten(one.module()(*args, **kwargs))[0])
    for expected, given in zip(*answers, strict=True):
        assert torch.equal(expected, given) if isinstance(expected, Tensor) else expected == given
    if name not in _VALUES:
        assert {t.device.type for t in on_meta(pure, *args, **kwargs) if isinstance(t, Tensor)} == {"meta"}
    assert graph_fingerprint(program) == before


def test_every_way_to_name_a_device_is_freed(baked: ExportedProgram) -> None:
    assert len(literal_devices(baked)) >= 10
    pure = reloaded(purify_devices(baked))
    assert sorted(node.target.name() for node, _ in literal_devices(pure)) == ["aten::arange", "aten::eye"]
    for size in (2, 7):
        x = torch.randn(size, 3)
        assert torch.equal(pure.module()(x), baked.module()(x))
        assert [(t.device.type, t.shape) for t in on_meta(pure, x)] == [("meta", x.shape)]


def test_without_it_the_program_stays_where_it_was_made(baked: ExportedProgram) -> None:
    with pytest.raises(RuntimeError):
        on_meta(baked, X)


def test_it_runs_on_cuda_as_far_as_shapes_go(baked: ExportedProgram) -> None:
    def work() -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        pure = purify_devices(baked)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            given = [
                torch.empty(node.meta["val"].shape[0:0] or (4, 3) if node.name == "args_0" else (3,), device="cuda:0")
                for node in pure.graph.find_nodes(op="placeholder")
            ]
            (answer,) = torch.fx.Interpreter(pure.graph_module).run(*given)
        assert str(answer.device) == "cuda:0", answer.device

    in_child(work, seconds=120)  # a CPU build may abort


def test_decomposed_and_loaded_programs_are_freed(baked: ExportedProgram) -> None:
    for program in (baked.run_decompositions({}), reloaded(baked)):
        pure = purify_devices(program)
        assert torch.equal(pure.module()(X), baked.module()(X))
        assert [t.device.type for t in on_meta(pure, X)] == ["meta"]


def test_nested_graphs_are_freed() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda v: v + torch.ones(3, device=v.device), lambda v: v - 1, (x,))

    program = torch.export.export(Lambda(do), (X,))
    assert literal_devices(program)
    for one in (program, reloaded(program)):
        assert literal_devices(purify_devices(one)) == []
        assert torch.equal(reloaded(purify_devices(one)).module()(X), program.module()(X))


def test_an_operator_with_a_device_of_its_own_is_refused() -> None:
    @torch.library.custom_op("exportready_devices::made", mutates_args=())
    def made(x: Tensor, device: torch.device) -> Tensor:
        return x.clone()

    made.register_fake(lambda x, device: torch.empty_like(x))
    program = torch.export.export(Lambda(lambda m, x: made(x, x.device)), (X,))
    with pytest.raises(DeviceBaked, match=r"programs\.py:\d+.*exportready_devices::made.*fixed device cpu.*Fix"):
        purify_devices(program)


def test_moving_the_freed_program_moves_no_other() -> None:
    program = export("linear")
    purify_devices(program).module().double()  # as moving to a device does, it replaces the data of each parameter
    assert {tensor.dtype for tensor in program.state_dict.values()} == {torch.float32}


def test_an_input_is_followed_before_a_weight() -> None:
    program = torch.export.export(Lambda(lambda m, x: x @ m.w + torch.zeros(3, device=x.device), w=torch.eye(3)), (X,))
    pure = purify_devices(program)
    (made,) = [node for node in pure.graph.nodes if operator_name(node) == "aten::new_zeros"]
    assert made.args[0].name in pure.graph_signature.user_inputs


def test_ties_are_kept() -> None:
    pure = purify_devices(export("tied"))
    assert len({tensor.data_ptr() for name, tensor in pure.state_dict.items() if "weight" in name}) == 1


def test_what_is_made_may_be_an_output() -> None:
    program = torch.export.export(Lambda(lambda m, x: (x, torch.arange(3), torch.zeros(2), torch.eye(2))), (X,))
    pure = reloaded(purify_devices(program))
    assert [t.device.type for t in on_meta(pure, X)] == ["meta"] * 4
    assert all(torch.equal(a, b) for a, b in zip(program.module()(X), reloaded(pure).module()(X), strict=True))
