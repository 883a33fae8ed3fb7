"""When the reference models are collected, and under which ids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from user_project import Project

NAMES = ["bert", "dlrm", "gpt", "lstm", "mlp", "resnet", "unet", "vit"]
SCENARIOS = ["plain", "ddp", "ddp_amp", "fsdp2"]
MLP = [f"exportready_reference_models/mlp.py::test_mlp[{scenario}]" for scenario in SCENARIOS]


def collected(project: Project, *args: str, models: str = "auto") -> list[str]:
    result = project.run("--collect-only", "-q", "-W", "error", *args, models=models)
    return [line for line in result.outlines if "::" in line]


def test_reference_models_when_no_path_is_given(project: Project) -> None:
    ids = collected(project)
    assert ids == [
        f"exportready_reference_models/{n}.py::test_{n}[{scenario}]" for n in NAMES for scenario in SCENARIOS
    ]
    project.write('@export_ready(stages=["export"])\ndef test_x(): return ready()')
    assert collected(project) == ["test_cases.py::test_x", *ids]
    assert collected(project, "test_cases.py") == ["test_cases.py::test_x"]
    assert collected(project, "test_cases.py", models="always") == ["test_cases.py::test_x", *ids]
    assert collected(project, models="never") == ["test_cases.py::test_x"]
    project.pytester.makeini("[pytest]\ntestpaths = .\npython_files = *.py\npython_functions = check_*")
    assert collected(project) == ids
    assert collected(project, "--import-mode=importlib") == ids


@pytest.mark.parametrize(
    "args",
    [
        ["--pyargs", "exportready_reference_models.mlp"],
        ["--pyargs", "exportready_reference_models.mlp::test_mlp"],
        ["exportready_reference_models/mlp.py::test_mlp"],
        ["exportready_reference_models/mlp.py"],
    ],
    ids=["module", "function", "node id", "file"],
)
def test_a_reference_model_by_name(project: Project, args: list[str]) -> None:
    assert collected(project, *args) == MLP


def test_a_reference_model_under_one_scenario_by_name(project: Project) -> None:
    assert collected(project, MLP[1]) == [MLP[1]]


def test_all_reference_models_by_name(project: Project) -> None:
    ids = collected(project, "--pyargs", "exportready_reference_models")
    assert len(ids) == len(set(ids)) == len(NAMES) * len(SCENARIOS)
    assert collected(project, "--pyargs", "exportready_reference_models", models="always") == ids
    both = collected(project, "--pyargs", "exportready_reference_models.mlp", models="always")
    assert [both.count(one) for one in MLP] == [1, 1, 1, 1]
    if pytest.version_tuple >= (9,):  # pytest 8 leaves the rest of a folder out when one of its files is named too
        assert sorted(both) == sorted(ids)


def test_in_a_checkout_the_reference_models_run_and_not_the_tests() -> None:
    root = Path(__file__).parents[2]
    if not (root / "reference_models").is_dir():
        pytest.skip("not a checkout")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--export-ready",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    for folder, args in ((root, ()), (root, ("-otestpaths=",)), (root / "reference_models", ())):
        run = subprocess.run([*command, *args], cwd=folder, capture_output=True, text=True, check=False)
        ids = [line for line in run.stdout.splitlines() if "::" in line]
        assert MLP[0] in ids, run.stdout
        assert len(ids) == len(NAMES) * len(SCENARIOS)
        assert "error" not in run.stdout.lower()
