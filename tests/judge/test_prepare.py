from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks._remedies import apply_remedies
from pytest_exportready.judge.prepare import CannotCopy, OutputChanged, prepare_for_export


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.bn, self.drop = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.bn(self.lin(x)))


def trained(model: nn.Module) -> nn.Module:
    for _ in range(2):
        model(torch.randn(8, 3)).sum().backward()
    return model


def output(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(torch.ones(2, 3))


def errors(model: nn.Module) -> list[str]:
    subject = Subject(model)
    return [str(f) for check in all_checks().values() for f in check.inspect(subject) if f.severity != "note"]


def test_a_copy_is_prepared_and_the_original_stays_as_it_was() -> None:
    model = trained(Net())
    before, state = output(model), {k: v.clone() for k, v in model.state_dict().items()}
    prepared = prepare_for_export(nn.DataParallel(model))
    assert errors(prepared.module) == []
    assert torch.equal(output(prepared.module), before)
    assert model.training
    assert model.lin.weight.grad is not None
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    assert prepared.module.lin.weight.data_ptr() != model.lin.weight.data_ptr()
    assert prepared.actions == [
        "Removed DataParallel around the model.",
        "Did not copy the gradients of 4 parameters.",
        "Called `eval()` on 1 norm: bn.",
        "Called `model.eval()`: 3 modules left training mode.",
    ]


def test_in_place_it_is_the_module_itself() -> None:
    model = trained(Net())
    model.lin.register_full_backward_hook(lambda *_: None)
    before = output(model)
    prepared = prepare_for_export(nn.DataParallel(model), inplace=True)
    assert prepared.module is model
    assert errors(model) == []
    assert torch.equal(output(model), before)
    assert prepare_for_export(model, inplace=True).actions == []


def test_ddp_is_unwrapped(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        prepared = prepare_for_export(trained(DistributedDataParallel(Net())))
    finally:
        dist.destroy_process_group()
    assert type(prepared.module) is Net
    assert errors(prepared.module) == []
    torch.export.export(prepared.module, (torch.ones(2, 3),))


def test_scaler_and_optimizer_are_cleared() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=4.0)
    scaler.scale(model(torch.randn(8, 3)).sum()).backward()
    scaler.unscale_(optimizer)
    actions = prepare_for_export(model, scaler=scaler, optimizer=optimizer).actions
    assert "Cleared the state of scaler for each optimizer; its scale is unchanged." in actions
    assert scaler.get_scale() == 4.0
    assert model.lin.weight.grad is None


def test_prepare_works_on_a_subject() -> None:
    subject = Subject(nn.DataParallel(trained(Net())))
    assert apply_remedies(subject)[0] == "Removed DataParallel around the model."
    assert type(subject.model) is Net
    assert apply_remedies(subject) == []


def test_names_the_attribute_that_cannot_be_copied() -> None:
    model = nn.Sequential(Net())
    model[0].lock = threading.Lock()
    with pytest.raises(CannotCopy, match=r"0\.lock cannot be copied: TypeError.*inplace=True"):
        prepare_for_export(model)
    prepare_for_export(model, inplace=True)


def test_non_leaf_tensor_attribute_is_named() -> None:
    model = Net()
    model.seen = model.lin(torch.ones(1, 3))
    with pytest.raises(CannotCopy, match="seen cannot be copied: RuntimeError"):
        prepare_for_export(model)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_recomputed_weights_are_copied() -> None:
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    trained(model)
    before = model(torch.ones(2, 3)).detach()
    module = prepare_for_export(model).module
    assert torch.equal(module(torch.ones(2, 3)), before)
    with torch.no_grad():
        module[0].weight_g.mul_(2)
    assert not torch.equal(module(torch.ones(2, 3)), before)


def test_patched_forward_that_is_a_method_is_rebound() -> None:
    model = Net()
    model.forward = model.forward
    copied = prepare_for_export(model).module
    assert copied.forward.__self__ is copied


def _closure(model: nn.Module) -> Callable[..., Any]:
    plain = model.forward
    return lambda *args: plain(*args)


def _wrapped(model: nn.Module) -> Callable[..., Any]:
    plain = model.forward

    @functools.wraps(plain)
    def forward(*args: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain(*args)

    return forward


def _partial(model: nn.Module) -> Callable[..., Any]:
    return functools.partial(_call, run=[_closure(model)])


def _default(model: nn.Module) -> Callable[..., Any]:
    return lambda x, model=model: model.lin(x)


def _call(*args: Any, run: Any) -> Any:
    return run[0](*args)


@pytest.mark.parametrize("patch", [_closure, _wrapped, _partial, _default])
def test_patched_forward_that_holds_the_original_is_refused(patch: Callable[[nn.Module], Any]) -> None:
    model = nn.Sequential(Net())
    model[0].forward = patch(model[0])
    with pytest.raises(CannotCopy, match=r"0\.forward cannot be copied: it is a function"):
        prepare_for_export(model)
    assert "forward" in vars(prepare_for_export(model, inplace=True).module[0])


def test_hook_that_holds_the_original_is_refused() -> None:
    model = Net()
    model.lin.register_forward_hook(lambda module, args, out: model.drop(out))
    with pytest.raises(CannotCopy, match="lin cannot be copied: one of its hooks"):
        prepare_for_export(model)


def test_functions_that_hold_nothing_of_the_model_are_no_obstacle() -> None:
    model = Net()
    model.activation = torch.relu
    model.scale = lambda x: x * 2
    model.half = functools.partial(torch.mul, 0.5)
    model.kind = nn.Linear
    model.bound = model.lin.forward
    copied = prepare_for_export(model).module
    assert copied.bound.__self__ is copied.lin


class Liar(nn.Module):
    """Comes back from deepcopy in training mode and with other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.drop = nn.Dropout()

    def __deepcopy__(self, memo: dict[int, Any]) -> Liar:
        return Liar()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.lin(x))


def test_a_copy_that_differs_is_corrected_and_told() -> None:
    model = nn.Sequential(Liar()).eval()
    module, actions = prepare_for_export(model)
    assert "Restored the mode of 3 modules after deepcopy: 0, 0.lin, 0.drop." in actions
    assert "Copied the values of 0.lin.weight, 0.lin.bias again after deepcopy." in actions
    assert torch.equal(module(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_a_copy_that_is_the_same_module_is_refused() -> None:
    class Same(nn.Module):
        def __deepcopy__(self, memo: dict[int, Any]) -> Same:
            return self

    with pytest.raises(CannotCopy, match="the same modules"):
        prepare_for_export(nn.Sequential(Same()))


def test_ties_and_nan_survive() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    with torch.no_grad():
        model[0].bias.fill_(float("nan"))
    module, actions = prepare_for_export(model.eval())
    assert module[0].weight is module[1].weight
    assert actions == []


def test_torchvisions_feature_extractor_stays_in_eval() -> None:
    models = pytest.importorskip("torchvision.models")
    extraction = pytest.importorskip("torchvision.models.feature_extraction")
    net = models.resnet18(weights=None)
    extractor = extraction.create_feature_extractor(net, ["layer1"]).eval()
    module, actions = prepare_for_export(extractor)
    x = torch.randn(2, 3, 32, 32)
    assert not any(m.training for m in module.modules())
    assert torch.equal(module(x)["layer1"], extractor(x)["layer1"])
    assert any("Restored the mode" in action for action in actions)


def test_program_module_and_traced_modules_are_prepared_too() -> None:
    x = torch.ones(2, 3)
    program = torch.export.export(nn.Linear(3, 3), (x,)).module()
    assert prepare_for_export(program, inplace=True).module is program
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.Dropout()))
    assert not prepare_for_export(traced).module.training


def test_an_averaged_model_comes_off_with_the_names_of_training() -> None:
    net = trained(Net())
    averaged = AveragedModel(net, use_buffers=True)
    averaged.update_parameters(net)
    for inplace in (False, True):
        prepared = prepare_for_export(averaged, inplace=inplace, example_inputs=(torch.ones(2, 3),))
        assert type(prepared.module) is Net
        assert prepared.module.state_dict().keys() == net.state_dict().keys()
        assert prepared.actions[0] == "Removed AveragedModel around the model."


def test_checkpoint_wrappers_come_off() -> None:
    net = trained(Net()).eval()
    names, before = list(net.state_dict()), output(net)
    net.lin = checkpoint_wrapper(net.lin)
    prepared = prepare_for_export(net, example_inputs=(torch.ones(2, 3),))
    assert "Removed CheckpointWrapper around lin." in prepared.actions
    assert list(prepared.module.state_dict()) == names
    assert type(prepared.module.lin) is nn.Linear
    assert torch.equal(output(prepared.module), before)


def test_moved_last() -> None:
    prepared = prepare_for_export(Net(), device="meta", example_inputs=(torch.ones(2, 3),))
    assert {p.device.type for p in prepared.module.parameters()} == {"meta"}
    assert prepared.actions[-1] == "Moved the model to meta."


def test_a_remedy_that_changes_the_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(subject: Subject) -> list[str]:
        with torch.no_grad():
            next(subject.model.parameters()).mul_(1 + 1e-6)
        return ["spoilt"]

    check = replace(all_checks()["no_training_mode"], remedy=spoil)
    monkeypatch.setitem(all_checks(), "no_training_mode", check)
    with pytest.raises(OutputChanged, match="differ from the model"):
        prepare_for_export(Net(), example_inputs=(torch.ones(2, 3),))
    prepare_for_export(Net())
