"""_rewriting: a patch is offered with its proof only, and nothing of the user's is changed by proving it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as fc
from torch.export import Dim

from pytest_exportready import ExportCase, export_ready_check
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.diagnosis import _affordable, _rewriting
from pytest_exportready.judge.judge import judge

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.limit = 5.0


class Scaled(Net):
    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if x.abs().max() > 1.0:
            x = x * 0.5
        return x


class Twice(Net):
    def forward(self, x: Tensor) -> Tensor:
        x = x + 1 if x.sum() > 0 else x
        return helper(self.layer(x))


def helper(x: Tensor) -> Tensor:
    if x.max() > 1:
        return -x
    return x


class Experts(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if x.mean() > 0 else x


class OtherShape(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x[:1] if x.sum() > 0 else x


class OtherDtype(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x.double() if x.sum() > 0 else x


class Never(Net):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if (x.abs() < 0).any() else x


class StillFails(Net):
    def forward(self, x: Tensor) -> Tensor:
        x = x + 1 if x.sum() > 0 else x
        return x[: int(x.argmax())].reshape(1, -1)


class Writes(Net):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.limit = 1.0
        return x


def patch_for(module: nn.Module, **options: Any) -> str:
    (finding,) = export_ready_check(module.eval(), (X,), stages=["export"], **options).errors
    assert finding.code == "ER401"
    assert finding.file == __file__
    assert "\n" not in finding.fix
    assert ("patch" in finding.fix) == bool(finding.patch)
    return finding.patch


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("module", [Scaled, Experts])
def test_a_patch_is_offered(module: Callable[[], nn.Module], strict: bool) -> None:
    code = module.forward.__code__  # type: ignore[attr-defined]
    text = Path(__file__).read_text(encoding="utf-8")
    patch_text = patch_for(module(), strict=strict)
    assert patch_text.startswith("--- ")
    assert f"@@ -{code.co_firstlineno}," in patch_text or f"@@ -{code.co_firstlineno + 1}," in patch_text
    assert module.forward.__code__ is code  # type: ignore[attr-defined]
    assert not [name for name in globals() if name.startswith(_rewriting._TAKEN)]
    assert Path(__file__).read_text(encoding="utf-8") == text


def test_a_patch_covers_every_branch_on_the_way() -> None:
    """In the function that forward calls too; under the dynamic shapes asked for."""
    patch_text = patch_for(Twice(), dynamic_shapes={"x": {0: Dim("batch")}})
    assert "torch.where(x.sum() > 0, x + 1, x)" in patch_text
    assert "torch.where(x.max() > 1, -x, x)" in patch_text


@pytest.mark.parametrize("module", [OtherShape, OtherDtype, Never, StillFails, Writes])
def test_without_proof_it_is_advice(module: Callable[[], nn.Module]) -> None:
    """The answers differ, a way is never taken, the export still fails, or the branch writes."""
    assert not patch_for(module())


def test_what_a_proof_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is too large for further traces gets advice; so does one whose patch is too long to show."""
    with monkeypatch.context() as patch:
        patch.setattr(_affordable, "OPERATORS", 1)
        assert not patch_for(Scaled())
    with monkeypatch.context() as patch:
        patch.setattr(_rewriting, "PATCH_LIMIT", 20)
        assert not patch_for(Scaled())
    assert patch_for(Scaled()).startswith("---")


class Reduces(Net):
    """A collective on one branch only: a rank that runs it alone waits for the others."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if x.abs().max() > 1.0:
            total = x.clone()
            dist.all_reduce(total)
            x = x * 0.5
        return x


class ReducesInstead(Net):
    """The branch itself may be rewritten; what it calls has a collective."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return total(x) if x.abs().max() > 1.0 else x


def total(x: Tensor) -> Tensor:
    return fc.all_reduce(x, "sum", dist.group.WORLD)


def patch_after(scenario: str, module: nn.Module) -> str:
    case = ExportCase(module.eval(), (X,))
    (finding,) = judge(case, CaseOptions(stages=("export",)), name="case", scenario=scenario).errors
    assert finding.file == __file__
    return finding.patch


@pytest.mark.world(2, timeout=120)
@pytest.mark.parametrize("scenario", ["ddp", "fsdp2"])
def test_ranks_that_train_together_get_the_same_patch(scenario: str) -> None:
    """Each proves it by itself, on weights that are the same on every rank."""
    torch.manual_seed(0)
    patch_text = patch_after(scenario, Scaled())
    assert "torch.where" in patch_text
    patches: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(patches, patch_text)
    assert patches[0] == patches[1]


@pytest.mark.world(2, timeout=120)
@pytest.mark.parametrize("module", [Reduces, ReducesInstead])
def test_no_rank_runs_a_collective_that_others_do_not(module: Callable[[], nn.Module]) -> None:
    """There is no patch then; and the ranks can go on together."""
    torch.manual_seed(0)
    assert not patch_after("ddp", module())
    dist.barrier()
