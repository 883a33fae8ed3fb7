"""A compiled program is cached after it agreed, and used for the same program, weights and compiler only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.judge.cache import key
from pytest_exportready.judge.cache.stage_results import CachedResults
from pytest_exportready.stages import all_stages, aotinductor

X = torch.arange(8.0).reshape(4, 2)
NAME = "aotinductor"


class Net(nn.Module):
    def __init__(self, weight: float = 2.0, scale: float = 3.0) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.full((2,), weight)), scale

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.scale


def trial(folder: Path, net: nn.Module | None = None, x: Tensor = X, keep: bool = True, **options: Any) -> Trial:
    net = net or Net()
    made = Trial(ExportCase(net, (x,)), CaseOptions(**options), "non-strict")
    sizes = {"x": {0: torch.export.Dim("batch")}} if options.get("dynamic_batch") else None
    made.exported = Exported(torch.export.export(net, (x,), dynamic_shapes=sizes))
    made.cache = CachedResults(folder, read_only=not keep)
    return made


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiler with one line as its package, and whose outputs are the module's times ``1`` or that number."""

    def compile_it(program: Any, path: str) -> str:
        Path(path).write_text("1")
        with (tmp_path / "compilations").open("a") as file:
            file.write("x")
        return path

    def load(path: str) -> Callable[[Tensor], Tensor]:
        factor = float(Path(path).read_text())
        return lambda x: x * 6.0 * factor

    monkeypatch.setattr(aotinductor, "aot_compiled", compile_it)
    monkeypatch.setattr(aotinductor, "aot_loaded", load)
    monkeypatch.setattr(aotinductor.shutil, "which", lambda *_, **__: "/bin/c++")


def run(trial: Trial) -> list[Finding]:
    return run_stage(aotinductor.STAGE.run, trial)


def compilations(tmp_path: Path) -> int:
    file = tmp_path / "compilations"
    return len(file.read_text()) if file.exists() else 0


@pytest.mark.usefixtures("compiled")
def test_a_package_is_compiled_once_and_compared_each_time(tmp_path: Path) -> None:
    """Its facts say that it is of an earlier run, and that it was compared now."""
    first = trial(tmp_path / "cache")
    assert run(first) == []
    assert "compiled" not in facts_of(first)
    second = trial(tmp_path / "cache", rtol=0.1, atol=0.0)  # another verdict, the same package
    assert run(second) == []
    assert compilations(tmp_path) == 1
    assert facts_of(second)["compiled"] == "in an earlier run"
    assert facts_of(second)["compared"] == 1
    assert facts_of(second)["bytes"] == facts_of(first)["bytes"] == 1


@pytest.mark.usefixtures("compiled")
def test_a_cached_package_that_does_not_agree_is_not_a_failure_of_the_program(tmp_path: Path) -> None:
    """It is compiled again and replaced."""
    first = trial(tmp_path / "cache")
    assert first.cache is not None
    first.cache.save_artifact(first, NAME, b"2")
    assert run(first) == []
    assert "compiled" not in facts_of(first)
    assert first.cache.load_artifact(first, NAME) == b"1"
    first.cache.save_artifact(first, NAME, b"no number: it does not load")
    assert run(first) == []
    assert first.cache.load_artifact(first, NAME) == b"1"
    assert compilations(tmp_path) == 2


@pytest.mark.usefixtures("compiled")
def test_a_corrupt_package_is_dropped_with_a_warning_and_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trial(tmp_path / "cache")
    run(first)
    (path,) = (tmp_path / "cache").glob(f"*/*.{NAME}")
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    works: list[object] = []
    proved = aotinductor.isolated_outputs
    monkeypatch.setattr(aotinductor, "isolated_outputs", lambda t, work, *a: works.append(work) or proved(t, work, *a))
    second = trial(tmp_path / "cache")
    assert run(second) == []
    assert works == [aotinductor.compile_and_run]
    assert second.cache is not None
    assert second.cache.problems() == [f"The corrupt cache entry {path.name} was dropped."]
    assert "compiled" not in facts_of(second)


@pytest.mark.usefixtures("compiled")
def test_what_disagrees_is_not_kept(tmp_path: Path) -> None:
    wrong = trial(tmp_path / "cache", Net(weight=1.0))
    assert run(wrong)
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("compiled")
def test_read_only_finds_and_does_not_keep(tmp_path: Path) -> None:
    run(trial(tmp_path / "cache", keep=False))
    assert not (tmp_path / "cache").exists()


OTHERS: dict[str, Callable[[Path], Trial]] = {
    "a weight": lambda folder: trial(folder, Net(weight=2.0000002)),
    "a number in the graph": lambda folder: trial(folder, Net(scale=3.0000001)),
    "a size": lambda folder: trial(folder, x=X[:3]),
    "strides": lambda folder: trial(folder, x=X.t().contiguous().t()),
    "a dtype": lambda folder: trial(folder, x=X.double()),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_program_is_a_miss(other: Callable[[Path], Trial], tmp_path: Path) -> None:
    first, second = trial(tmp_path), other(tmp_path)
    assert first.cache is not None
    assert second.cache is not None
    first.cache.save_artifact(first, NAME, b"1")
    assert first.cache.load_artifact(first, NAME) == b"1"
    assert second.cache.load_artifact(second, NAME) is None


def test_an_example_of_another_size_is_a_miss_for_one_graph(tmp_path: Path) -> None:
    """Compilers take the sizes of the example as a hint."""
    first, second = (trial(tmp_path, x=x, dynamic_batch=True) for x in (X, X[:3]))
    assert first.cache is not None
    assert first.program is not None
    assert second.program is not None
    assert graph_fingerprint(first.program) == graph_fingerprint(second.program)
    first.cache.save_artifact(first, NAME, b"1")
    assert first.cache.load_artifact(first, NAME) == b"1"
    assert first.cache.load_artifact(second, NAME) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CXX", "clang++"),
        ("CXXFLAGS", "-O0"),
        ("CPATH", "/other"),
        ("TORCHINDUCTOR_FREEZING", "1"),
        ("OMP_DYNAMIC", "1"),
    ],
)
def test_another_compiler_or_flag_is_a_miss(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trial(tmp_path)
    assert first.cache is not None
    first.cache.save_artifact(first, NAME, b"1")
    monkeypatch.setenv(name, value)
    assert first.cache.load_artifact(first, NAME) is None


@pytest.mark.parametrize("part", ["installed_fingerprint", "topology", "all_stages"])
def test_other_versions_another_machine_or_setting_is_a_miss(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        key = "other"

    first = trial(tmp_path)
    assert first.cache is not None
    first.cache.save_artifact(first, NAME, b"1")
    set_otherwise = {NAME: replace(all_stages()[NAME], tools=lambda: {"inductor": {"freezing": True}})}
    others = {"installed_fingerprint": "other", "topology": Other(), "all_stages": set_otherwise}
    monkeypatch.setattr(key, part, lambda **_: others[part])
    assert first.cache.load_artifact(first, NAME) is None


def test_a_program_with_operators_of_the_user_is_not_kept(tmp_path: Path) -> None:
    @torch.library.custom_op("exportready_artifacts::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    class Calls(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return twice(x)

    custom = trial(tmp_path, Calls())
    assert custom.cache is not None
    custom.cache.save_artifact(custom, NAME, b"1")
    assert not list(tmp_path.iterdir())


def test_a_program_of_the_cpu_does_not_start_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing asks for devices, and its key is the same on machines with other GPUs."""
    made = trial(tmp_path / "cache")
    keys = {key.artifact_key(made, NAME), key.verdict_key(made)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("CUDA was asked for devices"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("CUDA was asked for devices"))
    assert {key.artifact_key(made, NAME), key.verdict_key(made)} == keys
