"""The arguments of the marker, and the findings of wrong ones."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from user_project import Project

ONLY = 'stages=["export"]'


def test_arguments_of_module_class_function_and_parameter_are_merged(project: Project) -> None:
    project.write("""
pytestmark = export_ready(stages=["inspect", "export"])

@export_ready(xfail_stage="inspect", reason="known")
class TestClass:
    def test_inherits(self): return not_ready()

    @export_ready(reason="nearer")
    @pytest.mark.parametrize("make", [
        not_ready,
        pytest.param(ready, marks=export_ready(xfail_stage="export", reason="mine")),
    ])
    def test_closest(self, make): return make()
""")
    project.run().assert_outcomes(xfailed=2, failed=1)
    messages = {name: result.message for name, result in project.results().items()}
    assert "known to fail at inspect: known" in messages["TestClass::test_inherits"]
    assert "known to fail at inspect: nearer" in messages["TestClass::test_closest[not_ready]"]
    text = project.results()["TestClass::test_closest[ready]"].text
    assert "expected to fail at export (mine), but it passed every stage" in text


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        (
            "@export_ready(dynamic_bach=True)\ndef test_x(): pass",
            "*no argument `dynamic_bach`.",
        ),
        (
            "@export_ready(dynamic_batch=True, dynamic_shapes=({0: 1},))\ndef test_x(): pass",
            "*dynamic_batch*dynamic_shapes*",
        ),
        (
            "@export_ready(dynamic_batch=torch.zeros(2))\ndef test_x(): pass",
            "*dynamic_batch*",
        ),
        (
            '@export_ready(scenarios=["plane"])\ndef test_x(): pass',
            "*plane*",
        ),
        ("@export_ready(scenarios=[])\ndef test_x(): pass", "*scenarios*"),
        ('@export_ready(stages=["exprt"])\ndef test_x(): pass', "*exprt*"),
        ('@export_ready(ignore=["ER301"])\ndef test_x(): pass', "*reason*"),
        (
            '@pytest.mark.export_ready("plain")\ndef test_x(): pass',
            "The marker has a positional argument.",
        ),
        ("@export_ready\nclass TestU(unittest.TestCase):\n  def test_x(self): pass", "*plain class*"),
        (
            '@pytest.mark.parametrize("x", [pytest.param(1, marks=export_ready(scenarios=["plain"]))])\n'
            "def test_x(x): pass",
            "`scenarios` is given for one parameter of the function.",
        ),
    ],
)
def test_a_wrong_marker_fails_its_case(project: Project, marked: str, message: str) -> None:
    project.write(f'import unittest\n{marked}\n@export_ready(stages=["export"])\ndef test_good(): return ready()')
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    assert project.outcomes().pop("test_good") == "passed"
    (failed,) = (result for result in project.results().values() if result.outcome == "failed")
    (finding,) = failed.readiness.findings if failed.readiness else ()
    assert (failed.stage, finding.code) == ("case", "ER106")
    assert finding.where == "@export_ready"
    assert fnmatch(finding.message, message)
    assert finding.fix
    assert finding.file == "test_cases.py"
    assert finding.line
    result.stdout.fnmatch_lines(["*@export_ready, *: [[]ER106 markers_understood[]] *Fix: *"])


def test_a_wrong_marker_of_another_plugin_fails_its_case(project: Project) -> None:
    project.write("""
@pytest.mark.world(2, timout=3)
@export_ready(scenarios=["plain", "ddp"])
def test_x(): return ready()

@export_ready(stages=["export"])
def test_good(): return ready()
""")
    assert project.run().ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {
        "test_x[plain]": "failed at case",
        "test_x[ddp]": "failed at case",
        "test_good": "passed",
    }
    result = project.results()["test_x[ddp]"]
    assert result.readiness is not None
    (finding,) = result.readiness.errors
    assert finding.message == "`world` does not accept the argument `timout`."
    assert finding.fix.startswith("Use one of size, ")


def test_a_case_with_a_wrong_marker_sets_up_no_fixture(project: Project) -> None:
    project.write("""
@pytest.fixture
def costly(): open("set up", "w").close()

@export_ready(a=1)
def test_x(costly): return ready()
""")
    project.run().assert_outcomes(failed=1)
    assert not (project.path / "set up").exists()


def test_each_scenario_is_a_node(project: Project) -> None:
    project.write(f"""
@pytest.fixture
def other(): return 3

@export_ready(scenarios=["plain", "as_is", "plain"], {ONLY})
@pytest.mark.parametrize("n", [3, 5])
def test_both(n, other, tmp_path): return ready(n)

@export_ready(scenarios="as_is", {ONLY})
def test_one(export_ready_scenario):
    assert export_ready_scenario == "as_is"
    return ready()

@export_ready({ONLY})
def test_default(export_ready_scenario):
    assert export_ready_scenario == "plain"
    return ready()

def nothing_to_train(): return nn.ReLU().eval(), (torch.randn(4, 3),)

@export_ready({ONLY})
def test_untrainable(): return nothing_to_train()

@export_ready(scenarios=["plain"], {ONLY})
def test_untrainable_as_asked(): return nothing_to_train()
""")
    project.run().assert_outcomes(passed=7, failed=1)
    scenarios = {name: result.readiness.scenario for name, result in project.results().items()}
    assert [scenarios[f"test_both[{name}]"] for name in ("plain-3", "plain-5", "as_is-3", "as_is-5")] == [
        "plain", "plain", "as_is", "as_is"
    ]  # fmt: skip
    assert scenarios["test_one[as_is]"] == "as_is"
    assert scenarios["test_default"] == "plain"
    assert project.outcomes()["test_untrainable_as_asked[plain]"] == "failed at train"


def test_a_generator_runs_nowhere(project: Project) -> None:
    project.write("@export_ready\ndef test_x(): yield ready()")
    result = project.run()
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    assert "yield" in result.stdout.str() + result.stderr.str()
