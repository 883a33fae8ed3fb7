from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.ddp_hooks_emptied import inspect, remedy


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).eval()


def judge(model: nn.Module, **said: Any) -> list[Finding]:
    return list(inspect(Subject(model, **said)))


def brief(model: nn.Module, **said: Any) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in judge(model, **said)]


@pytest.mark.usefixtures("group")
def test_ddp_at_the_root_and_its_communication_hook() -> None:
    ddp = DistributedDataParallel(net())
    ddp.register_comm_hook(None, fp16_compress_hook)
    (finding,) = judge(ddp)
    assert (finding.severity, finding.where) == ("error", "")
    assert "wrapped in DistributedDataParallel" in finding.message
    assert "torch.export.export(model.module, ...)" in finding.fix
    assert "fp16_compress_hook" in finding.message
    subject = Subject(ddp)
    assert remedy(subject) == ["Removed DistributedDataParallel around the model."]
    assert subject.model is ddp.module
    assert judge(subject.model) == []


def test_compiled_inside_data_parallel_names_both_from_outside_in() -> None:
    (finding,) = judge(nn.DataParallel(torch.compile(net(), backend="eager")))
    assert "wrapped in DataParallel around OptimizedModule" in finding.message
    assert "model.module._orig_mod" in finding.fix


def test_wrapper_inside() -> None:
    model = nn.Module()
    model.encoder = torch.compile(net(), backend="eager")
    model.blocks = nn.ModuleList([nn.DataParallel(net())])
    assert brief(model) == [("error", "encoder"), ("error", "blocks.0")]
    assert judge(model)[0].fix == "Assign `model.encoder = model.encoder._orig_mod`."
    subject = Subject(model)
    assert remedy(subject) == ["Removed OptimizedModule around encoder.", "Removed DataParallel around blocks.0."]
    assert judge(subject.model) == []
    assert type(model.blocks[0]) is nn.Sequential


class Wrapping(nn.Module):
    """A user class with one child called ``module``."""

    def __init__(self) -> None:
        super().__init__()
        self.module = net()


def test_a_child_called_module_is_healthy() -> None:
    assert judge(Wrapping()) == []
    assert judge(Wrapping(), checkpoint=Wrapping().state_dict()) == []
    assert judge(AveragedModel(net())) == []


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_prefix_in_the_checkpoint(prefix: str) -> None:
    checkpoint = {prefix + name: value for name, value in net().state_dict().items()}
    findings = judge(net(), checkpoint=checkpoint)
    assert [f.severity for f in findings] == ["error"]
    assert "Names in the checkpoint" in findings[0].message


@pytest.mark.parametrize("model", [Wrapping(), AveragedModel(net())])
def test_prefix_in_the_model(model: nn.Module) -> None:
    (finding,) = judge(model, checkpoint=net().state_dict())
    assert finding.severity == "error"
    assert "Names in the model contain `module.`" in finding.message


def test_another_models_checkpoint_is_not_a_prefix() -> None:
    assert judge(net(), checkpoint={"module.other": torch.ones(1)}) == []
    assert judge(net(), checkpoint={}) == []


def tally(counts: Any, *_: Any) -> None: ...


class Tally:
    def __call__(self, *_: Any) -> None: ...

    def method(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (partial(tally, 1), "tally"),
        (Tally(), "Tally"),
        (Tally().method, "Tally.method"),
        (lambda *_: None, "<lambda>"),
    ],
)
def test_backward_hook_names_the_function_and_its_file(hook: Any, name: str) -> None:
    model = net()
    model[0].register_full_backward_hook(hook)
    model[2].weight.register_hook(hook)
    (finding,) = judge(model)
    assert finding.severity == "warning"
    assert f"`{name}` is registered on 0, 2.weight" in finding.message
    assert finding.file == __file__
    assert finding.line > 0


@pytest.mark.parametrize(
    "register",
    [
        lambda m: m[0].register_full_backward_hook(tally),
        lambda m: m[0].register_full_backward_pre_hook(tally),
        lambda m: m[0].register_backward_hook(tally),
        lambda m: m[0].weight.register_hook(tally),
        lambda m: m[0].weight.register_post_accumulate_grad_hook(tally),
    ],
)
def test_every_kind_of_backward_hook_is_removed(register: Any) -> None:
    subject = Subject(net())
    register(subject.model)
    assert [f.severity for f in inspect(subject)] == ["warning"]
    assert remedy(subject) == ["Removed the backward hooks of 1 module or parameter."]
    assert list(inspect(subject)) == []
    calls: list[int] = []
    subject.model[0].register_full_backward_hook(lambda *_: calls.append(1))
    subject.model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert calls == [1]


def test_forward_hooks_are_a_note_and_kept() -> None:
    subject = Subject(net())
    subject.model[0].register_forward_pre_hook(tally)
    subject.model[2].register_forward_hook(tally)
    assert [f.severity for f in inspect(subject)] == ["note"]
    assert remedy(subject) == ["Kept the forward hooks on 0, 2: they may compute."]
    assert [f.severity for f in inspect(subject)] == ["note"]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_forward_hooks_of_torch_are_not_reported() -> None:
    assert judge(nn.utils.weight_norm(nn.Linear(2, 2))) == []


def test_prefix_before_the_users_own_child_called_module() -> None:
    """A checkpoint of the wrapper around a model that has a child ``module`` of its own."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)
            self.head = nn.Linear(2, 1)

    model = Own().eval()
    state = model.state_dict()
    assert list(inspect(Subject(model, checkpoint=state))) == []
    (finding,) = inspect(Subject(model, checkpoint={f"module.{name}": value for name, value in state.items()}))
    assert finding.severity == "error"
    assert 'removeprefix("module.")' in finding.fix


def _watch(*_: Any) -> None: ...


def test_a_backward_hook_on_a_module_fails_a_strict_export_only() -> None:
    model = net()
    model[0].register_full_backward_hook(_watch)
    assert brief(model) == [("warning", "0")]
    assert brief(model, strict=True) == [("error", "0")]
    with pytest.raises(Exception, match="backwards hooks"):
        torch.export.export(model, (torch.ones(1, 2),), strict=True)


def test_a_hook_on_a_parameter_fails_no_export() -> None:
    model = net()
    model[0].weight.register_hook(lambda grad: grad)
    assert brief(model, strict=True) == [("warning", "0.weight")]
    torch.export.export(model, (torch.ones(1, 2),), strict=True)


def test_checkpoint_wrapper_inside() -> None:
    model = net()
    model[0] = checkpoint_wrapper(model[0])
    (finding,) = judge(model)
    assert (finding.severity, finding.where) == ("error", "0")
    assert finding.fix == "Assign `model.0 = model.0._checkpoint_wrapped_module`."
    subject = Subject(model)
    assert remedy(subject) == ["Removed CheckpointWrapper around 0."]
    assert judge(model) == []
