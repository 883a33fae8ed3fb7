"""How cases are collected, judged, and what becomes of them, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_project import Project

ONLY = 'stages=["export"]'


def test_functions_methods_fixtures_parameters_and_marker_forms(project: Project) -> None:
    project.write(f"""
@pytest.fixture(scope="session")
def features(): return 3

@pytest.fixture(scope="module")
def model(features): return ready(features)[0]

@pytest.fixture
def args(features): return (torch.randn(4, features),)

@export_ready
def test_bare(): return ready()

@pytest.mark.export_ready
def test_marker(model, args): return model, args, {{}}

@pytest.mark.export_ready({ONLY})
@pytest.mark.parametrize("n", [3, 5])
def test_parameters(n, tmp_path): return ready(n)

@export_ready({ONLY})
class TestClass:
    @pytest.fixture(scope="class")
    def own(self): return ready()
    def test_method(self, own): return ExportCase(*own)
    @staticmethod
    def test_static(): return ready()
    @classmethod
    def test_class_method(cls): return ready()

def test_plain(): raise AssertionError
""")
    project.write(f"pytestmark = export_ready({ONLY})\ndef test_of_module(): return ready()", "test_module.py")
    result = project.run()
    result.assert_outcomes(passed=8, deselected=1)
    assert set(project.outcomes()) == {
        "test_bare", "test_marker", "test_parameters[3]", "test_parameters[5]", "TestClass::test_method",
        "TestClass::test_static", "TestClass::test_class_method", "test_of_module",
    }  # fmt: skip
    assert [s.name for s in project.results()["test_of_module"].readiness.stages if s.outcome == "passed"] == [
        "train",
        "inspect",
        "export",
    ]


def test_errors_of_case_functions(project: Project) -> None:
    project.write("""
import unittest
@export_ready
def test_none(): return None
@export_ready
def test_tensor(): return nn.Linear(3, 2), torch.zeros(2, 3)
@export_ready
async def test_async(): return ready()
@export_ready
async def test_async_generator(): yield ready()
@export_ready
def test_raises():
    weights = {}
    return weights["lost"]
@export_ready
def test_asserts(): assert 1 == 2, "not loaded"
@export_ready
def test_fails(): pytest.fail("gave up")
@export_ready
def test_exits(): raise SystemExit(0)
@export_ready
def test_no_memory(): raise MemoryError
@export_ready
def test_skips(): pytest.skip("no weights")
@export_ready
def test_skips_unittest(): raise unittest.SkipTest("no weights")
@export_ready
def test_xfails(): pytest.xfail("known")
@export_ready
@pytest.mark.skip(reason="today")
def test_marked_skip(): raise AssertionError
@export_ready
@pytest.mark.skipif(True, reason="here")
def test_marked_skipif(): raise AssertionError
@export_ready
@pytest.mark.xfail(reason="known")
def test_marked_xfail(): return None
@export_ready(stages=["export"])
@pytest.mark.xfail(reason="known", strict=True)
def test_marked_strict(): return ready()
@export_ready
@pytest.mark.xfail(run=False)
def test_not_run(): raise AssertionError
@export_ready
def test_fixture(no_such_fixture): raise AssertionError
""")
    result = project.run("-W", "error")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*_ test_raises _*",
            "*def test_raises():",
            "*weights = {}",
            '>*return weights[[]"lost"]',
            "E*KeyError: 'lost'",
            "test_cases.py:*: KeyError",
            "*_ test_asserts _*",
            "E   AssertionError: not loaded",
            "E   assert 1 == 2",
        ]
    )
    result.stdout.no_fnmatch_line("*session.py*")
    assert project.outcomes() == {
        **dict.fromkeys(
            ["test_none", "test_tensor", "test_async", "test_async_generator", "test_raises", "test_asserts",
             "test_fails", "test_exits"],
            "failed at case",
        ),
        "test_no_memory": "infra at case",
        "test_skips": "skipped",
        "test_skips_unittest": "skipped",
        "test_xfails": "xfailed",
        "test_marked_skip": "skipped",
        "test_marked_skipif": "skipped",
        "test_marked_xfail": "xfailed at case",
        "test_marked_strict": "failed",
        "test_not_run": "xfailed",
        "test_fixture": "infra",
    }  # fmt: skip
    (finding,) = project.results()["test_raises"].readiness.findings
    assert finding.code == "ER102"
    assert Path(finding.file).name == "test_cases.py"
    assert 'return weights["lost"]' in Path(finding.file).read_text().splitlines()[finding.line - 1]
    assert "async" in project.results()["test_async"].message


def test_xfail_stage_is_strict(project: Project) -> None:
    project.write("""
@export_ready(xfail_stage="inspect", reason="left in train mode")
def test_there(): return not_ready()
@export_ready(xfail_stage="parity", reason="left in train mode")
def test_elsewhere(): return not_ready()
@export_ready(xfail_stage="inspect", reason="left in train mode")
def test_passes(): return ready()
@export_ready(ignore=["ER301", "ER302"], reason="statistics of the batch are meant", stages=["export"])
def test_ignored(): return not_ready()
""")
    result = project.run()
    result.assert_outcomes(xfailed=1, failed=2, passed=1)
    expected = "expected to fail at * (left in train mode), but it "
    result.stdout.fnmatch_lines([expected + "failed at inspect: *", expected + "passed every stage"])
    assert all(finding.ignored for finding in project.results()["test_ignored"].readiness.findings)
    project.run("--runxfail").assert_outcomes(failed=2, passed=2)


def test_a_fault_of_the_harness_is_no_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("harness")

    monkeypatch.setattr("pytest_exportready.session.verdict.judge", broken)
    project.write("@export_ready\ndef test_x(): return ready()")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*ZeroDivisionError: harness"])
    assert project.outcomes() == {"test_x": "infra at case"}


def test_a_users_own_makereport_and_a_retry(project: Project) -> None:
    project.write(
        """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    return pytest.TestReport.from_item_and_call(item, call)

def pytest_runtest_protocol(item, nextitem):
    from _pytest.runner import runtestprotocol
    for _ in range(2):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        runtestprotocol(item, nextitem=nextitem, log=True)
    return True
""",
        "conftest.py",
    )
    project.write("""
calls = []
@export_ready
def test_x():
    calls.append(1)
    if len(calls) == 2: pytest.skip("second")
    return None
""")
    project.run()
    result = project.results()["test_x"]
    assert (result.outcome, result.readiness) == ("skipped", None)
    assert "ER101" in result.earlier[0] or "returns_a_case" in result.earlier[0]
