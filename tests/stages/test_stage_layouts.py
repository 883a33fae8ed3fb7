"""Stage layouts: outputs that depend on the strides of the example are found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.case.readiness import Readiness

IMAGES = torch.randn(2, 3, 8, 8)


class Branch(nn.Module):
    """Branches on the layout."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.is_contiguous() else x * 3


class Strided(nn.Module):
    """Assumes contiguous rows of four."""

    def forward(self, x: Tensor) -> Tensor:
        step = x.stride(0)
        return torch.as_strided(x, (x.shape[0], 2), (step, x.stride(1) * 2)) * 1


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(1)


class Views(nn.Module):
    """`view` refuses other layouts in eager mode, too."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, 2).sum(1)


def check(module: nn.Module, *inputs: Tensor) -> Readiness:
    torch.manual_seed(0)
    return export_ready_check(module.eval(), inputs, stages=["layouts"])


@pytest.mark.parametrize(
    ("module", "x"), [(Branch(), torch.randn(2, 3, 4, 4)), (Strided(), torch.randn(3, 4))], ids=["branch", "as_strided"]
)
def test_fixed_strides(module: nn.Module, x: Tensor) -> None:
    """An error that names the layout."""
    readiness = check(module, x)
    assert {finding.code for finding in readiness.errors} == {"ER606"}, readiness
    assert "inputs" in readiness.errors[0].message


@pytest.mark.parametrize(
    ("module", "x", "compared"),
    [
        (Image(), IMAGES, ["channels_last", "transposed", "sliced"]),
        (Image(), IMAGES.contiguous(memory_format=torch.channels_last), ["channels_last", "transposed", "sliced"]),
        (nn.Linear(4, 4), torch.randn(3, 4), ["transposed", "sliced"]),
        (nn.Softmax(-1), torch.randn(4), ["sliced"]),
    ],
    ids=["image", "channels last already", "linear", "vector"],
)
def test_no_false_alarm(module: nn.Module, x: Tensor, compared: list[str]) -> None:
    """Correct models agree in every layout that their inputs can have."""
    readiness = check(module, x)
    assert readiness.ready, readiness
    (stage,) = [stage for stage in readiness.stages if stage.name == "layouts"]
    assert stage.facts["layouts"] == compared


def test_layouts_that_are_refused() -> None:
    assert check(Views(), torch.randn(3, 4)).ready


def test_the_module_is_restored() -> None:
    """Mode and statistics."""
    module = Image().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    export_ready_check(module, (torch.randn(2, 3, 8, 8),), stages=["layouts"])
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
