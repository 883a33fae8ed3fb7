"""A case moved to another device: its tensors and model are there, everything else is as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.case.export_case import CaseError, ExportCase
from pytest_exportready.judge.move_case import moved

META = torch.device("meta")  # a device of another type that every machine has


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3), persistent=False)


def test_tensors_anywhere() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    checkpoint = {"weight": torch.ones(3)}
    case = ExportCase(
        Nested(), (x, [x, {"a": torch.ones(1)}]), {"mask": torch.ones(2), "scale": 2.0},
        more_inputs=[((torch.ones(2, 3), []), {})], golden=(torch.ones(1), None), checkpoint=checkpoint,
    )  # fmt: skip
    there = moved(case, META)
    assert there.model is case.model
    first, (again, inner) = there.args
    assert first is again
    assert first.requires_grad
    assert {
        t.device for t in (first, inner["a"], there.kwargs["mask"], there.golden[0], there.more_inputs[0][0][0])
    } == {META}
    assert {t.device for t in (*there.model.parameters(), *there.model.buffers())} == {META}
    assert there.kwargs["scale"] == 2.0
    assert there.checkpoint is checkpoint
    assert case.args[0] is x
    assert x.device.type == "cpu"


def test_a_model_that_is_not_initialized_stays() -> None:
    with META:
        model = nn.Linear(3, 2)
    there = moved(ExportCase(model, (torch.ones(1, 3),)), torch.device("cpu"))
    assert there.model.weight.device == META


def test_a_model_that_cannot_be_moved() -> None:
    class Fixed(nn.Linear):
        def _apply(self, *args: object, **kwargs: object) -> Fixed:
            raise RuntimeError("quantized weights stay")

    with pytest.raises(CaseError, match="cannot be moved to meta: RuntimeError: quantized weights stay"):
        moved(ExportCase(Fixed(3, 2), (torch.ones(1, 3),)), META)
