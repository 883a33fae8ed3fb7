"""runner: one cause gives one finding, nothing global changes, and the user's model is left as it was."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.trial import Inspected, Observation, Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.case.export_case import CaseError, ExportCase
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.checks._check import Check, Subject
from pytest_exportready.checks._inspection import by_requirement, inspect_module
from pytest_exportready.judge import judge as judging
from pytest_exportready.stages import all_stages
from pytest_exportready.stages._stage import SkipStage, Stage, StageInfrastructure

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
BAD = Rule("ER998", "is_good")


def judge(model: nn.Module | None = None, scenario: str = "as_is", required: bool = True, **options: Any) -> Readiness:
    case = ExportCase(model or nn.Linear(3, 3).eval(), (X,))
    return judging.judge(case, CaseOptions(**options), name="case", scenario=scenario, required=required)


def outcomes(readiness: Readiness) -> dict[str, str]:
    return {stage.name: stage.outcome for stage in readiness.stages}


def fails(trial: Trial) -> Iterator[Finding]:
    yield BAD.error("here", "it is bad", "make it good")


def breaks(trial: Trial) -> Iterator[Finding]:
    yield BAD.warning("", "so far so good", "")
    raise ZeroDivisionError


def gives_up(trial: Trial) -> Iterator[Finding]:
    raise StageInfrastructure("no disk")
    yield


def declines(trial: Trial) -> Iterator[Finding]:
    raise SkipStage("nothing to do")
    yield


def passes(trial: Trial) -> Iterator[Observation]:
    yield {"seen": True}


def with_stages(options: dict[str, Any] | None = None, **functions: Any) -> Readiness:
    """Judge a case by the first stages up to the export, then by these: a function and what it is after."""
    first = {name: all_stages()[name] for name in ("train", "inspect", "export")}
    own = {name: Stage(run, (BAD,), after) for name, (run, after) in functions.items()}
    case = ExportCase(nn.Linear(3, 3).eval(), (X,))
    return judging.judge(case, CaseOptions(**(options or {})), name="case", stages=first | own)


def test_what_needs_a_failed_stage_is_skipped() -> None:
    """Down the chain and with the reason; what needs it not still runs. One cause, one finding."""
    readiness = with_stages(a=(fails, ()), b=(passes, ("a",)), c=(passes, ("b",)), d=(passes, ("export",)))
    assert outcomes(readiness) | {"train": "passed"} == {
        "train": "passed", "inspect": "passed", "export": "passed",
        "a": "failed", "b": "skipped", "c": "skipped", "d": "passed",
    }  # fmt: skip
    assert {s.name: s.reason for s in readiness.stages if s.reason} == {
        "b": "a did not pass",
        "c": "b did not pass",
    }
    assert [finding.code for finding in readiness.errors] == ["ER998"]
    assert readiness.failed_stage == "a"


def test_a_stage_that_declines_blocks_nothing() -> None:
    """Skipped with its reason; what comes after it runs."""
    readiness = with_stages(a=(declines, ()), b=(passes, ("a",)))
    assert readiness.ready
    assert (outcomes(readiness)["a"], outcomes(readiness)["b"]) == ("skipped", "passed")


@pytest.mark.parametrize(("stage", "reason"), [(breaks, "ZeroDivisionError"), (gives_up, "no disk")])
def test_a_broken_stage_is_infra(stage: Any, reason: str) -> None:
    """Never the model's fault, never green, and nothing builds on it; what it found before is kept."""
    readiness = with_stages(a=(stage, ()), b=(passes, ("a",)))
    assert (readiness.outcome, readiness.ready, readiness.failed_stage) == ("infra", False, "a")
    assert outcomes(readiness)["b"] == "skipped"
    assert reason in next(s.reason for s in readiness.stages if s.name == "a")
    assert len(readiness.findings) == (stage is breaks)


def test_ignored_with_a_reason() -> None:
    """It does not count, the stage passes, and the finding carries the reason."""
    ignored = {"ignore": ("ER998",), "reason": "known"}
    readiness = with_stages(ignored, a=(fails, ()), b=(passes, ("a",)))
    assert readiness.ready
    assert outcomes(readiness)["b"] == "passed"
    assert [finding.ignored for finding in readiness.findings] == ["known"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux keeps the peak")
def test_the_peak_memory_of_a_case_is_reported() -> None:
    class Wasteful(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(1 << 26).sum()

    assert judge(stages=("eager",)).peak_mib < 200 < judge(Wasteful().eval(), stages=("eager",)).peak_mib


def test_only_the_stages_asked_for_and_what_they_need() -> None:
    """The rest is skipped with the reason."""
    readiness = judge(stages=("parity",))
    assert outcomes(readiness)["parity"] == "passed"
    assert outcomes(readiness)["reload"] == "skipped"
    assert readiness.ready


def test_both_modes() -> None:
    """Stages that look at the program run twice, the others once."""
    readiness = judge(modes=("non-strict", "strict"), stages=("parity",))
    modes = [(stage.name, stage.mode) for stage in readiness.stages]
    assert ("parity", "strict") in modes
    assert ("parity", "non-strict") in modes
    assert [mode for name, mode in modes if name == "eager"] == [""]


def test_one_mode_may_fail() -> None:
    """The finding says which."""

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if torch.compiler.is_dynamo_compiling() else x * 2

    readiness = judge(Net().eval(), modes=("non-strict", "strict"), stages=("parity",))
    assert [s.outcome for s in readiness.stages if s.name == "parity"] == ["passed", "failed"]
    assert "(strict export)" in readiness.errors[0].message


def test_requires_without_cascades() -> None:
    """A check whose requirement has an error is not run, nor what requires that one."""

    def check(name: str, requires: tuple[str, ...], bad: bool) -> Check:
        rule = Rule(f"ER9{name}", name)
        found = [rule.error("", "bad", "")] if bad else []
        return Check(rule, lambda subject: found, good=(), bad=(), requires=requires)

    checks = {"a": check("a", ("b",), True), "b": check("b", ("c",), True), "c": check("c", (), True)}
    checks["d"] = check("d", (), False)
    *findings, inspected = inspect_module(by_requirement(checks), Subject(nn.Identity()))
    assert isinstance(inspected, Inspected)
    assert inspected.checked == (("ER9c", "c"), ("ER9d", "d"))
    assert [finding.name for finding in findings if isinstance(finding, Finding)] == ["c"]


def global_state() -> dict[str, Any]:
    return {
        "rng": torch.get_rng_state().tolist(),
        "python": random.getstate(),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "filters": list(warnings.filters),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def test_no_global_state_changes() -> None:
    """Also if ``forward`` changes it."""

    class Rude(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            if not torch.compiler.is_exporting():
                torch.manual_seed(3)
                random.seed(3)
                torch.set_default_dtype(torch.float64)
                torch.set_grad_enabled(True)
                warnings.simplefilter("ignore")
            return self.linear(x)

    for model, mode in ((nn.Linear(3, 3), "strict"), (Rude(), "non-strict")):
        before = global_state()
        judge(model.eval(), "plain", required=False, modes=(mode,))
        assert global_state() == before


@pytest.mark.parametrize("scenario", ["as_is", "plain"])
def test_the_users_model_is_left_as_it_was(scenario: str) -> None:
    """Trained, inspected, prepared, exported: data, modes, gradients, statistics as before."""
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    net(X).sum().backward()
    grads = [parameter.grad.clone() for parameter in net.parameters()]
    with preserved(net) as state:
        judge(net, scenario)
        assert state.changes() == []
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), grads, strict=True))
    assert net.training


def test_a_case_that_cannot_be_trained() -> None:
    """A warning by default; an error where the scenario was asked for."""
    for required, severity in ((False, "warning"), (True, "error")):
        readiness = judge(nn.Flatten().eval(), "plain", required)
        reported = {(finding.code, finding.severity) for finding in readiness.findings}
        assert ("ER103", severity) in reported
        assert readiness.ready is not required


def test_watch_names_each_stage_as_it_begins() -> None:
    """For the progress display."""
    seen: list[str] = []
    case = ExportCase(nn.Linear(3, 3).eval(), (X,))
    judging.judge(case, CaseOptions(), name="case", watch=seen.append)
    trial = Trial(case, CaseOptions(), "non-strict")
    assert seen == [name for name, stage in all_stages().items() if stage.asked(trial)]


def test_export_ready_check_arguments() -> None:
    """The names of torch.export; what is not accepted is reported at once."""
    net = nn.Linear(3, 3).eval()
    assert export_ready_check(net, (X,), strict=True, stages=["export"]).stages[-1].mode == "strict"
    with pytest.raises(CaseError, match=r"Write `\(x,\)`"):
        export_ready_check(net, X)  # type: ignore[arg-type]
    with pytest.raises(CaseError, match="non-strict"):
        export_ready_check(net, (X,), strict="sometimes")
    with pytest.raises(CaseError, match="accepted are aotinductor"):
        export_ready_check(net, (X,), stages=["exprot"])
    with pytest.raises(TypeError, match="goldne"):
        export_ready_check(net, (X,), goldne=X)


def test_skip_ddp_validation() -> None:
    """Findings about wrappers do not count; the proofs are made on the module inside."""
    net = nn.DataParallel(nn.Linear(3, 3)).eval()
    assert not export_ready_check(net, (X,)).ready
    assert export_ready_check(net, (X,), skip_ddp_validation=True).ready


def test_a_check_of_the_program_is_listed_where_there_was_one() -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    for model, listed in ((nn.Linear(3, 3), True), (Branches(), False)):
        checked = [name for _, name in judge(model.eval(), modes=("non-strict", "strict")).checked]
        assert checked.count("no_loss_scale") == listed
        assert checked.count("no_training_mode") == 1


def test_a_check_of_the_program_does_not_tell_a_known_cause_again() -> None:
    """weights_read_directly has reported the view; the program's constant has the same cause."""

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.linspace(-1.0, 1.0, 12).reshape(3, 4))
            self.w_t = self.w.data.t()

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.w_t.t()

    assert [finding.code for finding in judge(Keeps().eval()).errors] == ["ER316"]
