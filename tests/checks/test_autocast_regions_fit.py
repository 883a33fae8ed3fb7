"""An autocast region is an error only if it names another device type than the one on which the program will run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.autocast_regions_fit import inspect_program


class Block(nn.Module):
    """Its ``forward`` computes under ``torch.autocast(device_type, bfloat16, enabled)``, ``x.device.type`` for None."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.enabled = enabled


class Follows(Block):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, self.enabled):
            return self.linear(x).relu()


class Names(Block):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, self.enabled):
            return self.linear(x).relu()


class Decorated(Block):
    @torch.autocast("cpu", torch.bfloat16)
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


def found(block: nn.Module, target: str | None, strict: bool = False) -> list[Finding]:
    model = nn.Sequential(nn.Linear(4, 4), block).eval()
    program = torch.export.export(model, (torch.ones(2, 4),), strict=strict)
    return list(inspect_program(program, Subject(model, (torch.ones(2, 4),), target_device=target)))


@pytest.mark.parametrize("strict", [False, True])
def test_a_region_for_another_device_is_an_error(strict: bool) -> None:
    (finding,) = found(Names(), "cuda", strict)
    assert (finding.severity, finding.file) == ("error", __file__)
    assert finding.line == Names.forward.__code__.co_firstlineno + 2
    assert 'autocast("cpu", bfloat16)' in finding.message
    assert 'torch.autocast("cuda")' in finding.fix


def test_a_decorated_forward_names_the_device_too() -> None:
    (finding,) = found(Decorated(), "cuda:0")
    assert (finding.severity, finding.where) == ("error", "1")


def test_one_that_follows_the_input_is_a_warning() -> None:
    assert [f.severity for f in found(Follows(), "cuda")] == ["warning"]


@pytest.mark.parametrize("target", [None, "cpu"])
@pytest.mark.parametrize("block", [Names, Follows, Decorated])
def test_one_that_fits_is_a_note(block: Any, target: str | None) -> None:
    assert [f.severity for f in found(block(), target)] == ["note"]


@pytest.mark.parametrize("block", [Names, Follows])
def test_one_that_disables_autocast_is_fine(block: Any) -> None:
    assert found(block(enabled=False), "cuda") == []


@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_one_without_effect_where_it_was_exported_is_a_warning() -> None:
    class Elsewhere(Block):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return self.linear(x).relu()

    # Non-strict export on a machine without CUDA records the region as switched off.
    assert [f.severity for f in found(Elsewhere(), None, strict=True)] == ["warning"]


def test_each_region_names_its_module() -> None:
    assert [f.where for f in found(nn.Sequential(Names(), Names()), "cuda")] == ["1.0", "1.1"]
