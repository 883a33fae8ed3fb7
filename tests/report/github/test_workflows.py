"""No code of a fork reaches a GPU runner, no secret a place it need not be (linters look at the rest)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("ruamel.yaml")

GITHUB = Path(__file__).parents[3] / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
SELF_HOSTED = {"gpu.yml", "nightly.yml"}


def load(path: Path) -> Any:
    return yaml.YAML(typ="safe", pure=True).load(path)


def jobs(path: Path) -> Iterator[Any]:
    yield from load(path)["jobs"].values()


def steps(path: Path) -> Iterator[Any]:
    if path in ACTIONS:
        yield from load(path)["runs"]["steps"]
        return
    for job in jobs(path):
        yield from job.get("steps", ())


every = pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.parent.name + "/" + path.name)
workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def test_there_is_something_to_look_at() -> None:
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "gpu.yml", "nightly.yml", "export-ready.yml"}
    assert ACTIONS


@workflows
def test_nothing_is_permitted_that_a_job_does_not_ask_for(path: Path) -> None:
    assert load(path)["permissions"] == {}
    for job in jobs(path):
        assert set(job["permissions"].items()) <= {("contents", "read"), ("actions", "read"), ("issues", "write")}


@workflows
def test_no_fork_reaches_a_machine_of_ours(path: Path) -> None:
    triggers = load(path)["on"]
    assert "pull_request_target" not in triggers
    assert "workflow_run" not in triggers
    if path.name in SELF_HOSTED:
        assert set(triggers) <= {"schedule", "workflow_dispatch", "push"}
        for job in jobs(path):
            assert job["if"] == "${{ !github.event.repository.fork }}"  # in whichever repository holds them
    elif path.name == "export-ready.yml":
        plan, *others = jobs(path)
        assert "!startsWith(github.event_name, 'pull_request')" in plan["if"]
        assert all("plan" in job["needs"] for job in others)
    else:
        assert all(
            "self-hosted" not in str(job["runs-on"]) and "matrix" not in str(job["runs-on"]) for job in jobs(path)
        )


@workflows
def test_every_job_ends(path: Path) -> None:
    assert all("timeout-minutes" in job for job in jobs(path) if "uses" not in job)


@workflows
def test_a_failed_leg_takes_no_other_with_it(path: Path) -> None:
    assert all(job["strategy"]["fail-fast"] is False for job in jobs(path) if "strategy" in job)


@every
def test_what_is_used_is_pinned(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    used += [job["uses"] for job in ([] if path in ACTIONS else jobs(path)) if "uses" in job]
    for use in used:
        assert use.startswith("$/") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use), use


@every
def test_a_checkout_keeps_no_credentials(path: Path) -> None:
    for step in steps(path):
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@every
def test_values_reach_scripts_through_the_environment(path: Path) -> None:
    assert all("${{" not in step.get("run", "") for step in steps(path))


@every
def test_artifacts_have_names_of_their_own(path: Path) -> None:
    names = [step["with"]["name"] for step in steps(path) if "upload-artifact" in step.get("uses", "")]
    assert len(names) == len(set(names))


@every
def test_scripts_are_bash(path: Path) -> None:
    for step in steps(path):
        if "run" in step:
            checked = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("gpus", "device"), [(0, []), (1, ["--export-ready-device=cuda"])])
def test_a_leg_with_gpus_fails_without_them(tmp_path: Path, gpus: int, device: list[str]) -> None:
    """Its cases have to run on a GPU. The steps of the leg run here, with a program that prints its arguments."""
    program = tmp_path / "exportready"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    leg = {"matrix.gpus": str(gpus), "matrix.memory_gib": "40", "matrix.shard": "1/2", "inputs.arguments": "-x models"}
    given = [
        printed.split()
        for job in jobs(GITHUB / "workflows" / "export-ready.yml")
        for printed in ran(job, leg, tmp_path)
    ]
    assert ["doctor", "--gpus", str(gpus), "--memory-gib", "40", "--junit", "exportready/junit.xml"] in given
    assert ["shard", "1/2", "--export-ready-confirm=3", *device, "-x", "models"] in given


def ran(job: Any, leg: dict[str, str], folder: Path) -> Iterator[str]:
    """Yield what the steps of a job print that run doctor or shard, with the expressions of GitHub replaced."""

    def value(expression: re.Match[str]) -> str:
        name, _, text = re.fullmatch(r"([\w.]+)( > 0 && '(.*)' \|\| '')?", expression[1]).groups()  # type: ignore[union-attr]
        if text is None:
            return leg.get(name, "")
        return text if int(leg[name]) > 0 else ""

    for step in job["steps"]:
        if re.search("exportready (doctor|shard)", step.get("run", "")):
            variables = {name: re.sub(r"\$\{\{ (.*?) \}\}", value, text) for name, text in step["env"].items()}
            environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
            command = ["bash", "-euo", "pipefail", "-c", step["run"]]
            yield subprocess.run(command, env=environment, text=True, capture_output=True, check=True).stdout
