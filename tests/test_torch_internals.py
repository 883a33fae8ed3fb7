"""Which torch has which private API. All of them were there in torch 2.13 and 2.14; a run that fails here
says which one a newer torch has lost, and what the checks no longer see."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp import GradScaler
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from pytest_exportready import torch_internals as internals
from pytest_exportready.diagnosis._draft import _quiet


def _noop(*_: object) -> None: ...


def test_scaler_states() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu")
    assert internals.scaler_states(scaler) == []
    assert internals.scaler_states(GradScaler("cpu", enabled=False)) == []
    scaler.scale(model(torch.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)
    (state,) = internals.scaler_states(scaler) or ()
    assert state["stage"].name == "UNSCALED"
    assert [float(found) for found in state["found_inf_per_device"].values()] == [0.0]
    scaler.step(optimizer)
    assert state["stage"].name == "STEPPED"


def test_comm_hooks(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        ddp = DistributedDataParallel(nn.Linear(1, 1))
        assert internals.comm_hooks(ddp) == []
        ddp.register_comm_hook(None, allreduce_hook)
        assert internals.comm_hooks(ddp) == [allreduce_hook]
    finally:
        dist.destroy_process_group()


def test_failed_operator() -> None:
    """Carried by the exception, or found in its stack; of an error of Python's there is none."""
    fake = FakeTensorMode()
    with fake, pytest.raises(RuntimeError) as devices:
        torch.zeros(2) + torch.zeros(2, device="meta")
    assert internals.failed_operator(devices.value) == "aten.add.Tensor"
    with fake, pytest.raises(RuntimeError) as shapes:
        torch.zeros(2, 3).mm(torch.zeros(2, 3))
    assert internals.failed_operator(shapes.value) == "aten.mm.default"
    assert internals.failed_operator(ValueError()) == ""


def test_aot_inductor() -> None:
    """Torch 2.13, 2.14 and 2.15 have the entries and the options; tests/stages/test_stage_aotinductor.py runs them."""
    import torch._inductor as inductor

    assert {"aot_inductor.precompile_headers", "compile_threads"} <= set(inductor.list_options())
    assert callable(inductor.aoti_compile_and_package)
    assert callable(inductor.aoti_load_package)


def test_compile_settings() -> None:
    """Torch 2.13, 2.14 and 2.15 tell them; what is set is another value."""
    import torch._inductor.config as inductor

    before = internals.compile_settings()
    assert before == internals.compile_settings()
    assert len(before["inductor"]) > 100
    assert before["functorch"]
    with inductor.patch(epilogue_fusion=not inductor.epilogue_fusion):
        assert internals.compile_settings() != before


def test_compiled_source() -> None:
    net = nn.Linear(1, 1)
    assert internals.compiled_source(net) is None
    assert internals.compiled_source(torch.compile(net, backend="eager")) is net


def test_is_fake_and_is_dtensor() -> None:
    with FakeTensorMode():
        assert internals.is_fake(torch.ones(1))
    assert not internals.is_fake(torch.ones(1))
    assert not internals.is_dtensor(torch.ones(1))


@pytest.mark.filterwarnings("ignore:FSDP", "ignore::FutureWarning")
def test_is_fsdp1(tmp_path: Path) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = FullyShardedDataParallel(nn.Linear(1, 1), device_id=torch.device("cpu"))
        assert internals.is_fsdp1(wrapped)
        assert not internals.is_fsdp1(wrapped.module)
    finally:
        dist.destroy_process_group()


def test_is_fsdp2(tmp_path: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        sharded = fully_shard(nn.Linear(1, 1), mesh=init_device_mesh("cpu", (1,)))
    finally:
        dist.destroy_process_group()
    assert internals.is_fsdp2(sharded)
    assert not internals.is_fsdp2(nn.Linear(1, 1))


def test_checkpointed_source() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    inner = nn.Linear(1, 1)
    assert internals.checkpointed_source(checkpoint_wrapper(inner)) is inner
    assert internals.checkpointed_source(inner) is None


def test_each_operator() -> None:
    seen: list[str] = []

    def run(operator: Any, args: Any, kwargs: Any) -> Any:
        seen.append(operator.name())
        return operator(*args, **kwargs)

    with internals.each_operator(run):
        torch.ones(2) + 1
    assert seen == ["aten::ones", "aten::add.Tensor"]


def test_forward_hook_tables_and_state_dict_hooks() -> None:
    model = nn.Linear(1, 1)
    model.register_forward_pre_hook(_noop)
    model.register_forward_hook(_noop)
    handle = nn.modules.module.register_module_forward_hook(_noop)
    try:
        of_all = internals.forward_hook_tables(None)
    finally:
        shown = {kind: list(table.values()) for kind, table in of_all.items()}
        handle.remove()
    assert shown == {"before": [], "after": [_noop]}
    own = internals.forward_hook_tables(model)
    assert {kind: list(table.values()) for kind, table in own.items()} == {"before": [_noop], "after": [_noop]}
    model.register_state_dict_pre_hook(_noop)
    model.register_state_dict_post_hook(_noop)
    assert internals.state_dict_hooks(model) == [_noop, _noop]


def test_is_persistent() -> None:
    model = nn.Module()
    for name, kept in (("ships", True), ("stays", False)):
        model.register_buffer(name, torch.ones(1), persistent=kept)
        assert internals.is_persistent(model, name) is kept
        assert (name in model.state_dict()) is kept


def test_program_guards() -> None:
    class Even(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.shape[0] % 2 == 0 else x

    dynamic = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Even(), (torch.ones(4, 3),), dynamic_shapes=dynamic)
    assert any("% 2" in guard for guard in internals.program_guards(program))


def test_hooks_are_listed_and_cleared() -> None:
    model = nn.Linear(1, 1)
    model.register_full_backward_hook(_noop)
    model.register_full_backward_pre_hook(_noop)
    model.register_forward_hook(_noop)
    model.register_forward_pre_hook(_noop)
    model.weight.register_hook(_noop)
    model.weight.register_post_accumulate_grad_hook(_noop)
    assert internals.backward_hooks(model) == [_noop, _noop]
    assert internals.forward_hooks(model) == [_noop, _noop]
    assert internals.gradient_hooks(model.weight) == [_noop, _noop]
    internals.clear_backward_hooks(model)
    internals.clear_gradient_hooks(model.weight)
    assert internals.backward_hooks(model) == internals.gradient_hooks(model.weight) == []


def test_classes_without_a_public_name() -> None:
    assert internals.is_norm(nn.InstanceNorm2d(2))
    assert internals.is_norm(nn.SyncBatchNorm(2))
    assert not internals.is_norm(nn.LayerNorm(2))
    assert internals.is_batchnorm(nn.LazyBatchNorm1d())
    assert not internals.is_batchnorm(nn.InstanceNorm2d(2))
    assert internals.is_dropout(nn.FeatureAlphaDropout())
    assert not internals.is_dropout(nn.Identity())


def test_plain_attributes() -> None:
    model = nn.Linear(1, 1)
    model.note = "kept"
    assert internals.plain_attributes(model) == {"in_features": 1, "out_features": 1, "note": "kept"}


@pytest.mark.parametrize(
    ("function", "unknown"),
    [
        (internals.scaler_states, None),
        (internals.comm_hooks, None),
        (internals.program_guards, []),
        (internals.backward_hooks, []),
        (internals.forward_hooks, []),
        (internals.gradient_hooks, []),
    ],
)
def test_a_missing_api_is_unknown_and_no_crash(function: object, unknown: object) -> None:
    assert function(object()) == unknown


def test_function_of_node() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return 2 * grad

    x = torch.ones(2, requires_grad=True)
    assert internals.function_of_node(Twice.apply(x).grad_fn) is Twice  # 2.13 to 2.15
    assert internals.function_of_node((2 * x).grad_fn) is None


def test_traced_frames_and_draft_failures() -> None:
    """Where strict export was, and what draft_export met; unknown for anything else."""

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(Exception, match="ata-dependent") as raised:
        torch.export.export(Net(), (torch.ones(2),), strict=True)
    line = Net.forward.__code__.co_firstlineno + 1
    assert internals.traced_frames(raised.value)[-1] == (__file__, line)
    assert internals.traced_frames(ValueError()) == []
    program = torch.export.export(nn.Linear(1, 1), (torch.ones(1, 1),))
    assert internals.draft_failures(program) == []
    with _quiet():
        draft = torch.export.draft_export(Net(), (torch.ones(2),))
    assert internals.draft_failures(draft) == [("DATA_DEPENDENT_ERROR", __file__, line, [])]


def test_tracing_mode() -> None:
    """2.13 to 2.15 have it."""
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    val = program.graph.find_nodes(op="placeholder")[0].meta["val"]
    with internals.tracing_mode(program):
        assert internals.is_fake(val + 1)


def test_fake_mode() -> None:
    """2.13 to 2.15 have it."""
    mode, fake = internals.fake_mode()
    with mode:
        made = fake(torch.ones(2, 3)) @ torch.ones(3, 5)
    assert internals.is_fake(made)
    assert made.shape == (2, 5)


def test_size_guards() -> None:
    """2.13 to 2.15 log them; torch's own handlers and level are as before."""

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 2 else x

    logger = logging.getLogger("torch.__trace")
    before = logger.level, list(logger.handlers)
    with internals.SizeGuards() as guards:
        torch.export.export(Net(), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert (logger.level, list(logger.handlers)) == before
    line = Net.forward.__code__.co_firstlineno + 1
    assert any(of == "L['x'].size()[0]" and (__file__, line) in stack for of, _, stack in guards.found)


@pytest.mark.world(2)
def test_groups_and_functional_collectives(world: Any) -> None:
    internals.unregister_group("never there")
    internals.register_group("exportready/a_test/2", dist.group.WORLD)
    ops = internals.functional_collectives()
    x = torch.ones(2) + world.rank
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast"):
        assert hasattr(ops, name)
    assert ops.wait_tensor(ops.all_reduce(x, "sum", "exportready/a_test/2")).tolist() == [3.0, 3.0]
    internals.unregister_group("exportready/a_test/2")
    with pytest.raises(RuntimeError, match="exportready/a_test/2"):
        ops.all_reduce(x, "sum", "exportready/a_test/2")


def test_operators_made_by_custom_op() -> None:
    @torch.library.custom_op("internals::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    alone = internals.functions_of_operator(doubled)

    @doubled.register_fake
    def fake(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    assert internals.is_custom_operator(doubled)
    assert not internals.is_custom_operator(torch.ops.aten.add)
    assert internals.custom_operator("internals::doubled") is doubled
    assert internals.custom_operator("aten::add") is None
    assert len(alone) == 1
    assert internals.functions_of_operator(doubled) == [*alone, fake]
    assert internals.functions_of_operator(object()) == []


def test_sizes_get_an_upper_bound() -> None:
    """Every supported torch keeps the range of a size both in the program and in its ShapeEnv."""
    shapes = ({0: torch.export.Dim("rows", min=1), 1: torch.export.Dim("columns", max=9)},)
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=shapes)
    (rows,) = internals.without_bound(program)
    internals.bound_sizes(program, {rows: 6})
    assert internals.without_bound(program) == set()
    assert {(str(size) == rows, int(span.upper)) for size, span in program.range_constraints.items()} == {
        (True, 6),
        (False, 9),
    }
    value = next(iter(program.graph.nodes)).meta["val"]
    assert int(value.shape[0].node.shape_env.var_to_range[value.shape[0].node.expr].upper) == 6
    static = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    internals.bound_sizes(static, {"s0": 1})
    assert internals.without_bound(static) == set()
