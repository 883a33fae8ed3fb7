from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import prune

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.devices_consistent import inspect


class OnCuda(torch.Tensor):
    """A tensor that says it is on cuda:0, for machines without one."""

    @staticmethod
    def __new__(cls, size: tuple[int, ...] = (2,)) -> OnCuda:
        return torch.Tensor._make_wrapper_subclass(cls, size, dtype=torch.float32, device="cuda:0")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if "detach" in str(func) else NotImplemented


class Holder(nn.Module):
    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x) + self.value


def judge(model: nn.Module, **said: Any) -> list[Finding]:
    return list(inspect(Subject(model.eval(), **said)))


def serious(model: nn.Module, **said: Any) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in judge(model, **said) if f.severity != "note"]


def test_names_the_minority_of_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].bias = nn.Parameter(OnCuda())
    (finding,) = judge(model)
    assert (finding.severity, finding.where) == ("error", "1.bias")
    assert "on cuda:0, most of the model on cpu" in finding.message


def test_a_scalar_buffer_may_stay_on_the_cpu() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(OnCuda())
    model.register_buffer("num_batches_tracked", torch.tensor(0))
    model.temperature = torch.tensor(2.0)
    assert serious(model, target_device="cuda") == []


def test_plain_tensor_on_another_device_than_the_parameters() -> None:
    model = Holder(value=OnCuda())
    assert serious(model) == [("error", "value")]
    assert "`self.register_buffer('value', ...)`" in judge(model)[0].fix


@pytest.mark.parametrize("value", [[torch.ones(2)], (torch.ones(2),)])
def test_tensors_one_level_inside(value: Any) -> None:
    assert serious(Holder(value=value), target_device="cuda") == [("error", "value[0]")]
    assert serious(Holder(value={"mean": torch.ones(2)}), target_device="cuda") == [("error", "value['mean']")]


class Statistics:
    def __init__(self) -> None:
        self.mean = torch.ones(2)


class OwnObject(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x) + self.value.mean


def test_tensors_deeper_inside_and_in_objects_of_user_classes() -> None:
    assert serious(Holder(value={"a": [torch.ones(2)]}), target_device="cuda") == [("error", "value['a'][0]")]
    assert serious(OwnObject(value=Statistics()), target_device="cuda") == [("error", "value.mean")]


class MovesItself(Holder):
    def _apply(self, fn: Any, recurse: bool = True) -> MovesItself:
        super()._apply(fn, recurse)
        self.value = [fn(tensor) for tensor in self.value]
        return self


def test_a_class_that_moves_them_itself_is_a_warning() -> None:
    assert serious(MovesItself(value=[torch.ones(2)]), target_device="cuda") == [("warning", "value[0]")]


def test_plain_tensor_without_a_target_is_a_note() -> None:
    (finding,) = judge(Holder(value=torch.ones(2)))
    assert (finding.severity, finding.where) == ("note", "value")
    assert serious(Holder(value=torch.ones(2)), target_device="cpu") == []


def test_class_attribute_counts_too() -> None:
    class Normalize(nn.Module):
        mean = torch.tensor([0.5, 0.4])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.mean

    assert serious(Normalize(), target_device="cuda") == [("error", "mean")]


class MovedByHand(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x) + self.value.to(x)


class CastsTheInputOnly(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x.to(torch.float32)) + self.value


class Recomputed(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._refresh(x)
        return self.lin(x) + self.value

    def _refresh(self, x: torch.Tensor) -> None:
        self.value = torch.zeros_like(x)


class NeverRead(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


@pytest.mark.parametrize("kind", [MovedByHand, Recomputed, NeverRead])
def test_code_that_handles_the_device_makes_it_a_warning(kind: type[Holder]) -> None:
    assert serious(kind(value=torch.ones(2)), target_device="cuda") == [("warning", "value")]


def test_moving_something_else_does_not_help() -> None:
    assert serious(CastsTheInputOnly(value=torch.ones(2)), target_device="cuda") == [("error", "value")]


def _aliases() -> Iterator[nn.Module]:
    yield nn.LSTM(2, 3, num_layers=2)
    cell = Holder()
    cell.value = cell.lin.weight
    cell.flat = [cell.lin.weight.detach(), cell.lin.bias.view(-1)]
    yield cell
    pruned = nn.Linear(2, 2)
    prune.l1_unstructured(pruned, "weight", amount=1)
    yield pruned
    with pytest.warns(FutureWarning):
        yield nn.utils.weight_norm(nn.Linear(2, 2))


@pytest.mark.parametrize("number", range(4))
def test_aliases_and_recomputed_weights_are_clean(number: int) -> None:
    model = list(_aliases())[number]
    assert judge(model, target_device="cuda") == []


def test_recomputed_weight_is_clean_after_a_pass_without_gradients_too() -> None:
    model = nn.utils.spectral_norm(nn.Linear(2, 2)).eval()
    with torch.no_grad():
        model(torch.ones(1, 2))
    assert model.weight.is_leaf
    assert judge(model, target_device="cuda") == []


def test_meta_parameter_names_the_missing_key() -> None:
    model = nn.Linear(2, 2)
    model.bias = nn.Parameter(torch.empty(2, device="meta"))
    (finding,) = judge(model, checkpoint={"weight": torch.ones(2, 2)})
    assert (finding.severity, finding.where) == ("error", "bias")
    assert "checkpoint has no key bias" in finding.message


def test_fake_tensor_left_behind() -> None:
    with FakeTensorMode():
        fake = torch.ones(2)
    assert serious(Holder(value=fake)) == [("error", "value")]
    assert "FakeTensor" in judge(Holder(value=[fake]))[0].message


def test_lazy_and_parameterless_modules_do_not_break_it() -> None:
    assert serious(nn.LazyLinear(2)) == []
    assert judge(nn.ReLU()) == []


def test_no_values_are_printed() -> None:
    assert "1234" not in str(judge(Holder(value=torch.full((2,), 1234.0)), target_device="cuda")[0])
