"""Scenarios of any package are found through the entry-point group ``exportready.scenarios``."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from user_project import Project

import exportready_fixtures.scenarios
from pytest_exportready.case.scenario import ENTRY_POINTS, Scenario, find_scenario, scenario_names
from pytest_exportready.discover import module_names

THIRD = """
from pytest_exportready import Scenario

def train(case):
    return {"steps": 0, "by": "a third party"}

SCENARIO = Scenario(train)
"""
CASE = '@export_ready(scenarios=["%s"], stages=["export"])\ndef test_x(): return ready()\n'
GOOD = '@export_ready(scenarios=["as_is"], stages=["export"])\ndef test_good(): return ready()\n'


def installed(project: Project, **declared: str) -> None:
    """Install a package that declares scenarios by name: ``module:object``."""
    metadata = project.path / "third-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in declared.items())
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{points}")
    (project.path / "third.py").write_text(THIRD)


def reason(project: Project) -> str:
    return project.results()["test_x[noisy]"].message


def test_a_scenario_of_another_package(project: Project) -> None:
    installed(project, noisy="third:SCENARIO")
    project.write(CASE % "noisy")
    project.run(subprocess=True).assert_outcomes(passed=1)
    readiness = project.results()["test_x[noisy]"].readiness
    assert readiness is not None
    assert readiness.scenario == "noisy"
    assert readiness.stages[0].facts["by"] == "a third party"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("third_lost:SCENARIO", "cannot be loaded: ModuleNotFoundError: No module named 'third_lost'"),
        ("third:LOST", "cannot be loaded: AttributeError: "),
        ("third:train", "is a function, not a Scenario"),
    ],
)
def test_a_broken_entry_point_is_named_and_other_cases_run(project: Project, value: str, problem: str) -> None:
    installed(project, noisy=value)
    project.write(CASE % "noisy" + GOOD)
    assert project.run(subprocess=True).ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {"test_x[noisy]": "infra at train", "test_good[as_is]": "passed"}
    named = f"The entry point noisy = '{value}' (group {ENTRY_POINTS}) of third {problem}"
    assert named in reason(project)
    assert "Fix: " in reason(project)


def test_two_scenarios_of_one_name_are_both_named(project: Project) -> None:
    installed(project, plain="third:SCENARIO")
    project.write("@export_ready(scenarios=['plain'])\ndef test_x(): return ready()\n" + GOOD)
    assert project.run(subprocess=True).ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {"test_x[plain]": "infra at train", "test_good[as_is]": "passed"}
    message = project.results()["test_x[plain]"].message
    assert "everal scenarios have the name 'plain'" in message
    assert "'third:SCENARIO'" in message
    assert "'exportready_fixtures.scenarios.plain:SCENARIO'" in message


def test_a_scenario_that_nobody_declares(project: Project) -> None:
    """A marker that names it is wrong; the message lists the scenarios there are."""
    project.write(CASE % "noisy" + GOOD)
    project.run()
    assert "as_is, ddp, ddp_amp, fsdp2, plain" in reason(project)


def test_each_of_our_modules_is_declared_under_its_name() -> None:
    points = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    package = exportready_fixtures.scenarios
    expected = {name: f"{package.__name__}.{name}:SCENARIO" for name in module_names(package)}
    assert expected.items() <= points.items()
    assert set(scenario_names()) == set(points)
    assert all(isinstance(find_scenario(name), Scenario) for name in expected)
