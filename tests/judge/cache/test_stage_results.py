"""A verdict is found again for the same case, and for no other: whatever changes, it is a miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.cache import key
from pytest_exportready.judge.cache.stage_results import CachedResults
from pytest_exportready.judge.judge import judge
from pytest_exportready.stages import all_stages

X = torch.arange(8.0).reshape(4, 2)


class Net(nn.Module):
    scale: object = 2.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line, self.norm = nn.Linear(2, 3), nn.BatchNorm1d(3)
        self.register_buffer("table", torch.ones(3), persistent=False)
        self.limit = 1e9

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.line(x)) * self.scale + self.table


def case(**other: Any) -> ExportCase:
    return ExportCase(**{"model": Net().eval(), "args": (X,), **other})


def judged(case: ExportCase, folder: Path, options: CaseOptions | None = None, keep: bool = True) -> Readiness:
    cache = CachedResults(folder, read_only=not keep)
    return judge(case, options or CaseOptions(), name="net", cache=cache)


def cached(readiness: Readiness) -> set[str]:
    return {stage.name for stage in readiness.stages if stage.cached}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    first = judged(case(), folder)
    assert first.ready
    assert not cached(first)
    return folder


def test_the_same_case_is_found_and_says_so(filled: Path) -> None:
    second = judged(case(), filled)
    assert second.ready
    assert cached(second) == {"parity", "shapes", "reload", "interface", "layouts", "operators"}
    parity = next(stage for stage in second.stages if stage.name == "parity")
    assert parity.reason.startswith("cached 2")
    assert parity.facts["compared"] >= 1
    assert parity.seconds == 0.0


def _weights(model: Any) -> None:
    with torch.no_grad():
        model.line.weight[0, 0] += 1e-7


def _renamed(model: Any) -> None:
    model.lines = model.line
    del model.line
    model.forward = partial(lambda m, x: m.norm(m.lines(x)) * m.scale + m.table, model)


CHANGES: dict[str, Callable[[Any], None]] = {
    "a weight": _weights,
    "a statistic": lambda model: model.norm.running_mean.add_(1e-6),
    "a buffer that is not saved": lambda model: model.table.mul_(2),
    "a number that the graph holds": lambda model: setattr(model, "scale", 2.5),
    "a number that only eager reads": lambda model: setattr(model, "limit", 1e8),
    "a layer's constant": lambda model: setattr(model.norm, "eps", 1e-3),
    "a name": _renamed,
    "a hook": lambda model: model.line.register_forward_hook(lambda m, i, o: o * 3),
    "a dtype": lambda model: model.double(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_module_is_a_miss(change: Callable[[Any], None], filled: Path) -> None:
    model = Net().eval()
    change(model)
    args = (X.to(model.norm.running_mean.dtype),)
    assert not cached(judged(case(model=model, args=args), filled, keep=False))


@pytest.mark.parametrize(
    "other",
    [
        {"args": (X + 1,)},
        {"args": (), "kwargs": {"x": X}},
        {"more_inputs": [((X + 1,), {})]},
        {"golden_tolerance": 1e-2},
        {"target_device": "cpu"},
        {"allow_mutation": True},
        {"loss": torch.sum},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_case_is_a_miss(other: dict[str, Any], filled: Path) -> None:
    assert not cached(judged(case(**other), filled, keep=False))


@pytest.mark.parametrize(
    "other",
    [{"dynamic_batch": True}, {"rtol": 1e-3}, {"modes": ("strict",)}, {"stages": ("parity",)}],
    ids=str,
)
def test_other_options_are_a_miss(other: dict[str, Any], filled: Path) -> None:
    assert not cached(judged(case(), filled, replace(CaseOptions(), **other), keep=False))


@pytest.mark.parametrize("part", ["code_fingerprint", "topology"])
def test_other_code_or_another_machine_is_a_miss(part: str, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        key = "other"

    monkeypatch.setattr(key, part, lambda *_, **__: "other" if part == "code_fingerprint" else Other())
    assert not cached(judged(case(), filled, keep=False))


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMP_WAIT_POLICY", "passive"), ("MKL_CBWR", "COMPATIBLE"), ("ATEN_CPU_CAPABILITY", "default")],
)
def test_a_variable_by_which_libraries_compute_otherwise_is_a_miss(
    name: str, value: str, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert not cached(judged(case(), filled, keep=False))


def test_settings_of_torch_are_a_miss(filled: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert not cached(judged(case(), filled, keep=False))
    finally:
        torch.set_num_threads(threads)


class ReadsOutside(Net):
    """What it computes in eager mode depends on something that neither graph nor module nor code shows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (1 if torch.compiler.is_exporting() else OUTSIDE["factor"])


OUTSIDE = {"factor": 1.0}


def test_a_module_with_other_outputs_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(case(model=ReadsOutside().eval()), tmp_path).ready
    assert cached(judged(case(model=ReadsOutside().eval()), tmp_path))
    monkeypatch.setitem(OUTSIDE, "factor", 1.5)
    changed = judged(case(model=ReadsOutside().eval()), tmp_path)
    assert not cached(changed)
    assert changed.failed_stage == "parity"


def test_what_lowers_is_found_again_with_its_tools_and_not_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered = replace(CaseOptions(), lower=("decompose",))
    stages = dict(all_stages())
    monkeypatch.setattr(key, "all_stages", lambda: stages)
    stages["decompose"] = replace(stages["decompose"], tools=lambda: "tool 1")
    judged(case(), tmp_path, lowered)
    assert "decompose" in cached(judged(case(), tmp_path, lowered))
    assert not cached(judged(case(), tmp_path))
    stages["decompose"] = replace(stages["decompose"], tools=lambda: "tool 2")
    assert not cached(judged(case(), tmp_path, lowered, keep=False))


def test_what_a_machine_lacks_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be there in the next run; a skip for want of a compiler would hide it."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    lowered = replace(CaseOptions(), lower=("aotinductor",))
    for _ in range(2):
        readiness = judged(case(), tmp_path, lowered)
        (stage,) = [stage for stage in readiness.stages if stage.name == "aotinductor"]
        assert stage.outcome == "skipped"
        assert not cached(readiness)
    assert not list(tmp_path.iterdir())


def test_a_layer_that_keeps_weak_references_is_found_again(tmp_path: Path) -> None:
    """nn.LSTM does, to its weights."""

    def again() -> Readiness:
        torch.manual_seed(0)
        return judged(ExportCase(nn.LSTM(2, 3).eval(), (X[None],)), tmp_path)

    assert again().ready
    assert cached(again())


def test_what_failed_is_not_kept(tmp_path: Path) -> None:
    vacuous = case(model=nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).eval())
    nn.init.constant_(vacuous.model[0].bias, -1e9)
    for _ in range(2):
        readiness = judged(vacuous, tmp_path)
        assert readiness.failed_stage
        assert not cached(readiness)


def test_read_only_finds_and_does_not_keep(tmp_path: Path) -> None:
    judged(case(), tmp_path, keep=False)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_compared_is_not_cached_and_the_reason_reported(tmp_path: Path) -> None:
    model = Net().eval()
    model.lock = __import__("threading").Lock()
    for _ in range(2):
        readiness = judged(case(model=model), tmp_path)
        assert not cached(readiness)
    (note,) = [finding for finding in readiness.findings if finding.code == "ER105"]
    assert note.message == "The results of this case are not cached: .lock is a lock, which cannot be pickled."
    assert note.severity == "note"
