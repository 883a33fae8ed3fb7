from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.batchnorm_frozen import inspect


def net(*norms: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), *norms)


def trained(model: nn.Module) -> nn.Module:
    for _ in range(2):
        model.train()(torch.randn(8, 3))
    return model.eval()


def judge(model: nn.Module, **said: Any) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in findings(model, **said)]


def findings(model: nn.Module, **said: Any) -> list[Finding]:
    return list(inspect(Subject(model, **said)))


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm1d(4, momentum=None),
        nn.BatchNorm1d(4, affine=False),
        nn.InstanceNorm1d(4),
        nn.GroupNorm(2, 4),
    ],
)
def test_trained_and_frozen_is_clean(norm: nn.Module) -> None:
    model = net(norm)
    if not isinstance(norm, nn.InstanceNorm1d):
        trained(model)
    assert findings(model.eval()) == []


def test_sync_batchnorm_in_eval_is_clean() -> None:
    assert findings(nn.SyncBatchNorm.convert_sync_batchnorm(trained(net(nn.BatchNorm1d(4))))) == []


def test_training_mode_names_the_first_and_counts() -> None:
    model = trained(net(*(nn.BatchNorm1d(4) for _ in range(5))))
    (finding,) = findings(model.train())
    assert (finding.severity, finding.where) == ("error", "1")
    assert "5 norms are in training mode: 1, 2, 3 and 2 more" in finding.message


def test_instance_norm_that_tracks_counts_too() -> None:
    model = nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True))
    model(torch.randn(2, 4, 5))
    assert judge(model) == [("error", "0")]


def test_subclass_of_the_common_base_is_found() -> None:
    class Naive(nn.modules.batchnorm._BatchNorm):
        def _check_input_dim(self, x: torch.Tensor) -> None: ...

    model = trained(net(Naive(4))).train()
    assert judge(model) == [("error", "1")]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_broken_statistics(value: float) -> None:
    model = trained(net(nn.BatchNorm1d(4)))
    model[1].running_var[2] = value
    assert judge(model) == [("error", "1")]


def test_untouched_without_evidence_is_a_warning() -> None:
    assert judge(net(nn.BatchNorm1d(4)).eval()) == [("warning", "1")]


def test_random_weights_are_no_evidence() -> None:
    model = net(nn.BatchNorm1d(4)).eval()
    nn.init.normal_(model[1].weight, 1.0, 0.02)  # as DCGAN initializes it
    assert judge(model) == [("warning", "1")]


def test_untouched_although_the_bias_moved() -> None:
    model = net(nn.BatchNorm1d(4)).eval()
    with torch.no_grad():
        model[1].bias.add_(torch.arange(4))
    assert judge(model) == [("error", "1")]


def test_untouched_although_another_norm_was_trained() -> None:
    model = trained(net(nn.BatchNorm1d(4)))
    model.append(nn.BatchNorm1d(4).eval())
    (finding,) = findings(model)
    assert (finding.severity, finding.where) == ("error", "2")
    assert "`1` has seen 2 batches" in finding.message


def _optimizer() -> torch.optim.Optimizer:
    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    optimizer = torch.optim.Adam([parameter])
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("state", [{"step": 3}, {"optimizer": _optimizer()}, {"optimizer": _optimizer().state_dict()}])
def test_untouched_although_training_went_on(state: dict[str, Any]) -> None:
    assert judge(net(nn.BatchNorm1d(4)).eval(), training_state=state) == [("error", "1")]


@pytest.mark.parametrize("state", [{"step": 0}, {"optimizer": torch.optim.SGD([torch.ones(1)], lr=0.1)}, {}])
def test_a_state_without_steps_is_no_evidence(state: dict[str, Any]) -> None:
    assert judge(net(nn.BatchNorm1d(4)).eval(), training_state=state) == [("warning", "1")]


def test_averaged_model_whose_statistics_stayed_behind() -> None:
    ema = AveragedModel(net(nn.BatchNorm1d(4)))
    ema.n_averaged.fill_(6)
    (finding,) = findings(ema.eval())
    assert (finding.severity, finding.where) == ("error", "module.1")
    assert "`n_averaged` is 6" in finding.message
    assert "use_buffers=True" in finding.fix


def test_no_statistics_at_all_is_a_warning() -> None:
    (finding,) = findings(net(nn.BatchNorm1d(4, track_running_stats=False)).eval())
    assert (finding.severity, finding.where) == ("warning", "1")
    assert "in eval mode too" in finding.message


def test_statistics_without_values_do_not_break_it() -> None:
    assert findings(net(nn.BatchNorm1d(4)).to("meta").eval()) == []


class TwoHeads(nn.Module):
    """``head`` says which of two heads, each with a norm, forward uses."""

    def __init__(self, *used: str) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: net(nn.BatchNorm1d(4)) for name in ("a", "b")})
        self.used = used

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.heads[name](x) for name in self.used])


def test_a_norm_that_forward_does_not_use_is_a_note() -> None:
    """A head of another task has no part in the program; where forward does not run, this is unknown."""
    model = trained(TwoHeads("a"))
    assert judge(model, args=(torch.randn(2, 3),)) == [("note", "heads.b.1")]
    assert judge(model, args=(torch.randn(2, 9),)) == [("error", "heads.b.1")]
    assert judge(model) == [("error", "heads.b.1")]
    model.used = ("a", "b")
    assert judge(model, args=(torch.randn(2, 3),)) == [("error", "heads.b.1")]
    assert not any(module._forward_pre_hooks for module in model.modules())
