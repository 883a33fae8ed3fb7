"""Merged adapters: a weight that differs from its checkpoint by the product of two matrices is as it should be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.module.lora import explained_by_merging, merged_modules
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.checkpoint_loaded import inspect


class Adapted(nn.Linear):
    def __init__(self, inputs: int, outputs: int, rank: int = 2) -> None:
        super().__init__(inputs, outputs)
        self.lora_A = nn.Parameter(torch.randn(rank, inputs))
        self.lora_B = nn.Parameter(torch.randn(outputs, rank))
        self.merged = False

    def merge(self, scaling: float = 0.5) -> None:
        with torch.no_grad():
            self.weight += scaling * self.lora_B @ self.lora_A
        self.merged = True


class OnTheSide(nn.Module):
    """As PEFT has it: the adapted layer is a child."""

    def __init__(self) -> None:
        super().__init__()
        self.base_layer = nn.Linear(6, 4)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(6, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})
        self.merged_adapters: list[str] = []

    def merge(self) -> None:
        with torch.no_grad():
            self.base_layer.weight += 2 * self.lora_B["default"].weight @ self.lora_A["default"].weight
        self.merged_adapters.append("default")


def saved(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("layer", [Adapted(6, 4), Adapted(4, 2), Adapted(3, 3, rank=3), OnTheSide()])
def test_merged_weights_are_those_of_the_checkpoint(layer: Adapted | OnTheSide) -> None:
    model = nn.Sequential(layer)
    checkpoint = saved(model)
    layer.merge()
    assert merged_modules(model) == {"0": layer}
    assert list(inspect(Subject(model, checkpoint=checkpoint))) == []


def test_another_change_is_still_reported() -> None:
    model = nn.Sequential(Adapted(6, 4))
    checkpoint = saved(model)
    model[0].merge()
    with torch.no_grad():
        model[0].weight[0, 0] += 1
    assert [f.where for f in inspect(Subject(model, checkpoint=checkpoint))] == ["0.weight"]


def test_without_the_flag_nothing_is_explained() -> None:
    model = nn.Sequential(Adapted(6, 4))
    checkpoint = saved(model)
    model[0].merge()
    model[0].merged = False
    assert [f.where for f in inspect(Subject(model, checkpoint=checkpoint))] == ["0.weight"]
    assert not explained_by_merging(nn.Linear(2, 2), "weight", torch.ones(2, 2))
