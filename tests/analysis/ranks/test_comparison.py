"""differences: one for each cause, the majority first; descriptions of every kind of subject."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.ranks.comparison import Difference, differences
from pytest_exportready.analysis.ranks.rank_state import RankState


def found(*subjects: Any, **options: Any) -> list[tuple[str, str]]:
    """Where and what differs between the subjects, as if each were one rank's."""
    facts = [RankState(subject, **options).facts for subject in subjects]
    return [(difference.where, difference.field) for difference in differences(facts, range(len(subjects)))]


def net(**linear: Any) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4, **linear), nn.BatchNorm1d(4))


def test_majority_first_then_the_lowest_rank() -> None:
    difference = Difference("w", "mode", {0: "a", 1: "b", 2: "b", 3: "c"})
    assert difference.groups == [("b", [1, 2]), ("a", [0]), ("c", [3])]
    assert (difference.reference, difference.odd, difference.culprit) == (1, [0, 3], None)
    assert difference.summary == "differs in mode: b on ranks 1, 2, a on rank 0, c on rank 3"
    assert Difference("w", "mode", {0: "a", 1: "a", 2: "b"}).culprit == 2
    two = Difference("w", "mode", {0: "a", 1: "b"})
    assert (two.reference, two.odd, two.culprit) == (0, [1], None)


def test_the_same_is_not_reported() -> None:
    assert found(net(), net(), net()) == []
    assert found({"a": torch.ones(2)}, {"a": torch.ones(2)}) == []
    assert found([torch.ones(2), 3, "x"], [torch.ones(2), 3, "x"]) == []


def test_wrappers_do_not_count() -> None:
    assert found(net(), nn.DataParallel(net())) == []
    assert found(net(), torch.compile(net(), backend="eager")) == []


def test_one_cause_is_reported_once() -> None:
    """No hash of another shape, nothing inside a missing module, no order of names if a name is missing."""
    assert found(net(), net(dtype=torch.float64)) == [("0.weight", "dtype"), ("0.bias", "dtype")]
    assert found(net(), net(bias=False)) == [("0.bias", "presence")]
    assert found(net(), net().append(nn.Sequential(nn.Linear(4, 4)))) == [("2", "presence")]
    assert found(net(), net(device="meta")) == [("0.weight", "device"), ("0.bias", "device")]


def test_only_the_aspects_asked_for() -> None:
    other = net().eval()
    other[0].weight.data += 1
    other[1].running_mean += 1
    assert found(net(), other, what=("structure",)) == []
    assert found(net(), other, what=("parameters",)) == [("0.weight", "values")]
    assert found(net(), other, what=("buffers",)) == [("1.running_mean", "values")]
    assert found(net(), other, what=("modes",)) == [("", "mode"), ("0", "mode"), ("1", "mode")]


def test_gradients() -> None:
    """Their presence and their values."""
    models = [net() for _ in range(3)]
    for model, factor in zip(models[1:], (1.0, 2.0), strict=True):
        (model[0](torch.ones(1, 3)).sum() * factor).backward()
    facts = [RankState(model, ("gradients",)).facts for model in models]
    weight, bias = differences(facts, range(3))
    assert (weight.where, bias.where) == ("0.weight", "0.bias")
    assert weight.values[0] == "none"
    assert len(set(weight.values.values())) == 3


def test_order_of_names() -> None:
    a, b = torch.ones(1), torch.ones(1)
    assert found({"a": a, "b": b}, {"b": b, "a": a}) == [("", "order of names")]


def test_ties() -> None:
    def model(tied: bool) -> nn.Module:
        tie = nn.Linear(3, 3, bias=False)
        copy = nn.Linear(3, 3, bias=False)
        copy.load_state_dict(tie.state_dict())
        if tied:
            copy.weight = tie.weight
        torch.nn.init.ones_(tie.weight)
        torch.nn.init.ones_(copy.weight)
        return nn.ModuleDict({"a": tie, "b": copy})

    assert found(model(True), model(True)) == []
    assert ("b.weight", "tie") in found(model(True), model(False))


def test_values_that_python_keeps_in_a_state() -> None:
    assert found({"step": 3}, {"step": 4}) == [("step", "value")]
    assert found({"step": object()}, {"step": object()}) == []


def test_uneven_dimensions() -> None:
    """The last batch may be smaller; the rest of its shape, its dtype and its device must be the same."""
    batches = [{"images": torch.rand(n, 3), "ids": [torch.arange(n)]} for n in (4, 3)]
    assert found(*batches, uneven={"*": 0}) == []
    assert found(*batches, uneven={"images": 0, "ids.0": -1}) == []
    assert found(*batches, uneven={"images": 0}) == [("ids.0", "shape")]
    assert found(torch.rand(4, 3), torch.rand(3, 2), uneven={"": 0}) == [("", "shape")]
    assert found(torch.rand(4, 3), torch.rand(3, 3).double(), uneven={"*": 0}) == [("", "dtype")]


def test_exported_program() -> None:
    def program(shift: float) -> torch.export.ExportedProgram:
        model = net().eval()
        model[1].running_var += shift
        return torch.export.export(model, (torch.ones(2, 3),))

    assert found(program(0.0), program(0.0)) == []
    assert found(program(0.0), program(1.0)) == [("1.running_var", "values")]


def test_strides_of_dimensions_of_one_do_not_matter() -> None:
    one = torch.rand(4, 3, 1, 1)
    assert found(one, one.clone().to(memory_format=torch.channels_last)) == []
    image = torch.rand(2, 3, 4, 4)
    assert found(image, image.to(memory_format=torch.channels_last)) == [("", "stride")]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_kind_of_tensor_is_described() -> None:
    kinds = {
        "meta": torch.empty(2, device="meta"),
        "lazy": nn.UninitializedParameter(),
        "sparse": torch.eye(2).to_sparse(),
        "csr": torch.eye(2).to_sparse_csr(),
        "float8": torch.ones(2).to(torch.float8_e4m3fn),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "complex": torch.ones(2, dtype=torch.complex64),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        "graph": torch.ones(2, requires_grad=True) * 2,
    }
    facts = RankState(kinds).facts
    assert kinds.keys() <= facts.keys()
    assert all("values" in facts[name] for name in kinds)
    assert differences([facts, RankState(kinds).facts], [0, 1]) == []
