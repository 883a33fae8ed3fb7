"""Stage export: the program has its own memory, the module is restored, and a failure is diagnosed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stage_runs import run_stage
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import export

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


def exported(model: nn.Module, *args: Any, mode: Any = "non-strict", **options: Any) -> tuple[Trial, list[str]]:
    case = ExportCase(model, args or (X,))
    trial = Trial(case, CaseOptions(**options), mode)
    return trial, [finding.code for finding in run_stage(export.run, trial)]


@pytest.mark.parametrize("mode", ["non-strict", "strict"])
def test_program_shares_no_storage(mode: str) -> None:
    """Running or writing the program does not change the module: parameters, buffers, constants, views."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("table", torch.ones(6))
            self.register_buffer("view", self.table[:3])
            self.register_buffer("expanded", torch.ones(1).expand(3), persistent=False)
            self.plain = torch.ones(3)

        def forward(self, x: Tensor) -> Tensor:
            self.table.add_(1)
            return self.linear(x) + self.view + self.expanded + self.plain

    net = Net().eval()
    own = [*net.parameters(), *net.buffers(), net.plain]
    with preserved(net) as state:
        trial, found = exported(net, mode=mode)
        assert found == []
        assert trial.program is not None
        copies = [*trial.program.state_dict.values(), *trial.program.constants.values()]
        shared = {t.untyped_storage().data_ptr() for t in own} & {t.untyped_storage().data_ptr() for t in copies}
        assert not shared
        first, second = (trial.running.outputs([((X,), {})])[0] for _ in range(2))
        assert torch.equal(first, second)
        assert torch.equal(first, trial.reference.output(((X,), {})))
        assert state.changes() == []


def test_ties_are_kept_in_the_program() -> None:
    """Storage shared within the module is shared within the program."""
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).eval()
    net[1].weight = net[0].weight
    trial, _ = exported(net)
    assert trial.program is not None
    state = trial.program.state_dict
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()


def test_batchnorm_left_in_training() -> None:
    """The statistics of the user's module do not change, whatever the program does."""
    net = nn.Sequential(nn.BatchNorm1d(3))
    net(X)
    before = net[0].running_mean.clone()
    readiness = export_ready_check(net, (X,))
    assert {finding.name for finding in readiness.errors} >= {"batchnorm_frozen"}
    assert torch.equal(net[0].running_mean, before)
    assert net.training


def test_inputs_of_the_user_are_not_marked() -> None:
    """A failed export modifies the tensors that it was given; these are copies."""
    x = X.clone()
    before = dict(x.__dict__)
    readiness = export_ready_check(
        nn.Flatten(0).eval(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim("d")},)
    )
    assert readiness.outcome in ("passed", "failed")
    assert x.__dict__ == before
    torch.export.export(nn.Flatten(0).eval(), (x,))


def test_fake_tensors_left_are_reported_and_removed() -> None:
    """A list that forward fills: a warning, and the module is restored."""

    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.seen.append(x * 2)
            return self.seen[-1]

    net = Caching().eval()
    readiness = export_ready_check(net, (X,))
    assert readiness.ready, readiness
    assert ("ER120", "seen") in [(finding.code, finding.where) for finding in readiness.findings]
    assert net.seen == []


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_old_weight_norm() -> None:
    """Its hook reassigns the weight, which is not an error."""
    net = nn.utils.weight_norm(nn.Linear(3, 3)).eval()
    readiness = export_ready_check(net, (X,))
    assert readiness.ready, readiness
    net(X)


def test_custom_parameter_class() -> None:
    """A subclass of Parameter is exported and saved as a parameter."""

    class Special(nn.Parameter):
        pass

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Special(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    readiness = export_ready_check(Net().eval(), (X,), stages=["parity"])
    assert readiness.ready, readiness


def test_no_batch() -> None:
    """dynamic_batch without a batch dimension is a finding, not an exception."""

    class Half(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / 2

    readiness = export_ready_check(Half().eval(), (torch.tensor(3.0),), dynamic_batch=True)
    assert [finding.code for finding in readiness.errors] == ["ER122"]


def test_a_failure_is_never_a_skip() -> None:
    """Whatever torch.export raises fails the stage, with type and place, without tensor contents."""

    class Secret(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if torch.compiler.is_exporting():
                raise KeyError(torch.tensor([1.25, 2.5]), [0.125, 0.25, 0.75])
            return x * 2

    readiness = export_ready_check(Secret().eval(), (X,))
    (finding,) = readiness.errors
    assert readiness.failed_stage == "export"
    assert (finding.code, finding.file) == ("ER430", __file__)
    assert "KeyError" in finding.torch_says
    for text in (str(readiness), str(finding)):
        assert "1.25" not in text
        assert "0.125" not in text


class Recorded(nn.Module):
    """Autocast inside forward is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y: Tensor = self.layer(x)
        return y


def test_autocast_around_the_export() -> None:
    """torch drops it silently: the program of such an export computes in float32."""
    x = torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        readiness = export_ready_check(nn.Linear(4, 2).eval(), (x,))
    (finding,) = readiness.errors
    assert finding.name == "no_autocast_around"
    assert "bfloat16" in finding.message
    assert readiness.failed_stage == "export"
    assert export_ready_check(nn.Linear(4, 2).eval(), (x,), stages=["parity"]).ready
    assert export_ready_check(Recorded().eval(), (x,), stages=["parity"]).ready
