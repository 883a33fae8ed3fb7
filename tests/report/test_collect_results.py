from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.collect_results import Gather
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from pathlib import Path
from pytest_exportready.report.collect_results import Gather
from pytest_exportready.report.junit import write_junit
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult

class Plugin:
    def __init__(self):
        self.gather = Gather()

    def pytest_runtest_logreport(self, report):
        self.gather.add(report)

    def pytest_collectreport(self, report):
        self.gather.add_collect(report)

    def pytest_sessionfinish(self, session):
        if not hasattr(session.config, "workerinput"):
            write_junit(self.gather.run({"torch": "none"}), Path("junit.xml"))

def pytest_configure(config):
    config.pluginmanager.register(Plugin())

def record(outcome):
    finding = Finding("ER1", "sound", "error", "net", "is not", "mend it", stage="parity")
    stage = StageResult("parity", outcome, reason="no memory" if outcome == "infra" else "")
    return Readiness("net", "plain", (stage,), (finding,) if outcome == "failed" else ()).to_dict()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    marker = item.get_closest_marker("judged")
    if marker and call.when == "call":
        report.exportready = record(marker.args[0])
    return report

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if item.get_closest_marker("again"):
        from _pytest.runner import runtestprotocol
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.when == "call":
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
    return None
"""

SUITE = """
import os, sys
import pytest

def test_pass():
    print("seen on stdout")

def test_fail():
    print("to stderr", file=sys.stderr)
    assert 1 == 2, "the reason"

@pytest.mark.skip(reason="no GPU")
def test_skip(): pass

def test_skip_inside():
    pytest.skip("not here")

@pytest.mark.xfail(reason="known")
def test_xfail(): assert 0

@pytest.mark.xfail(reason="mended")
def test_xpass(): pass

@pytest.mark.xfail(strict=True, reason="strictly")
def test_xpass_strict(): pass

@pytest.fixture
def broken(): raise RuntimeError("no port")

@pytest.fixture
def leaky():
    yield
    raise RuntimeError("did not close")

def test_setup(broken): pass

def test_teardown(leaky): pass

def test_both(leaky): assert 0, "in the call"

class TestClass:
    @pytest.mark.parametrize("x", ["a::b[c]"])
    def test_method(self, x): pass

@pytest.mark.judged("passed")
def test_ready(): pass

@pytest.mark.judged("failed")
def test_unready(): pytest.fail("overview")

@pytest.mark.judged("infra")
def test_infra(): pytest.fail("overview")

@pytest.mark.judged("failed")
def test_unready_yet_passing(): pass

FLAKY = []

@pytest.mark.again
def test_flaky():
    FLAKY.append(1)
    assert len(FLAKY) > 1, "the first time"

def test_crash(request):
    if hasattr(request.config, "workerinput"):
        os._exit(9)
"""

SUBTESTS = """
def test_subtests(subtests):
    for i in range(3):
        with subtests.test("dim", i=i):
            assert i != 1, "only one"
"""

OUTCOMES = {
    "test_pass": "passed",
    "test_fail": "failed",
    "test_skip": "skipped",
    "test_skip_inside": "skipped",
    "test_xfail": "xfailed",
    "test_xpass": "passed",
    "test_xpass_strict": "failed",
    "test_setup": "infra",
    "test_teardown": "infra",
    "test_both": "failed",
    "test_method[a::b[c]]": "passed",
    "test_ready": "passed",
    "test_unready": "failed",
    "test_infra": "infra",
    "test_unready_yet_passing": "failed",
    "test_flaky": "passed",
    "test_crash": "passed",
}


def session(pytester: pytest.Pytester, *arguments: str, suite: str = SUITE) -> Run:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    judged: outcome\n    again: run twice\n")
    pytester.mkpydir("tests").joinpath("test_suite.py").write_text(suite)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    return read_junit(Path("junit.xml"))


@pytest.fixture
def results(pytester: pytest.Pytester) -> dict[str, TestResult]:
    return {result.name: result for result in session(pytester).results}


def test_one_result_for_each_node_id(results: dict[str, TestResult]) -> None:
    assert {name: result.outcome for name, result in results.items()} == OUTCOMES


def test_reasons(results: dict[str, TestResult]) -> None:
    assert {name: result.message for name, result in results.items() if result.message} == {
        "test_fail": "AssertionError: the reason assert 1 == 2",
        "test_skip": "no GPU",
        "test_skip_inside": "not here",
        "test_xfail": "known",
        "test_xpass": "passed although expected to fail: mended",
        "test_xpass_strict": "[XPASS(strict)] strictly",
        "test_setup": "setup: RuntimeError: no port",
        "test_teardown": "teardown: RuntimeError: did not close",
        "test_both": "AssertionError: in the call assert 0",
        "test_unready": "net: [ER1 sound] is not. Fix: mend it",
        "test_infra": "parity: no memory",
        "test_unready_yet_passing": "net: [ER1 sound] is not. Fix: mend it",
    }


def test_where_what_and_what_was_printed(results: dict[str, TestResult]) -> None:
    method = results["test_method[a::b[c]]"]
    assert method.nodeid == "tests/test_suite.py::TestClass::test_method[a::b[c]]"
    assert (method.classname, method.file) == ("tests.test_suite.TestClass", "tests/test_suite.py")
    assert SUITE.splitlines()[method.line - 1].strip().startswith("@pytest.mark.parametrize")
    assert results["test_pass"].output == "--- Captured stdout call ---\nseen on stdout\n"
    assert results["test_fail"].output == "--- Captured stderr call ---\nto stderr\n"
    assert "the reason" in results["test_fail"].text
    assert "did not close" in results["test_both"].text
    assert results["test_ready"].readiness is not None
    assert results["test_flaky"].earlier == ("AssertionError: the first time assert 1 > 1 + where 1 = len([1])",)


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests are a part of pytest since 9.0")
def test_subtests_are_folded_into_their_test(pytester: pytest.Pytester) -> None:
    (result,) = session(pytester, suite=SUBTESTS).results
    assert result.outcome == "failed"
    assert result.message == "subtests, 1 failed: [dim] (i=1): AssertionError: only one assert 1 != 1"
    assert result.text.startswith("subtest [dim] (i=1):\n")


def test_a_lost_worker_is_the_runners_fault(pytester: pytest.Pytester) -> None:
    run = session(pytester, "-n", "1")
    results = {result.name: result for result in run.results}
    assert {name: result.outcome for name, result in results.items()} == {**OUTCOMES, "test_crash": "infra"}
    assert "crashed while running" in results["test_crash"].message
    assert results["test_unready"].stage == "parity"


def test_a_file_that_cannot_be_collected_is_the_runners_fault(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_broken="import nothing_of_that_name")
    pytester.runpytest_subprocess("-p", "no:cacheprovider")
    (result,) = read_junit(Path("junit.xml")).results
    assert (result.outcome, result.classname) == ("infra", "test_broken")
    assert "No module named 'nothing_of_that_name'" in result.message


def test_what_did_not_finish_is_not_green(tmp_path: Path) -> None:
    gather = Gather()
    gather.add(pytest.TestReport("a.py::test_a", ("a.py", 3, "test_a"), {}, "passed", None, "setup"))
    run = gather.run({})
    assert [(result.outcome, result.line) for result in run.results] == [("infra", 4)]
    assert "did not finish" in run.results[0].message
    write_junit(run, tmp_path / "junit.xml")
    assert read_junit(tmp_path / "junit.xml") == run


def test_reports_lose_what_the_run_has() -> None:
    """Pytest keeps every report to its end, and other plugins do."""
    gather = Gather()
    report = pytest.TestReport("a.py::test_a", ("a.py", 3, "test_a"), {}, "passed", None, "call")
    stages = (StageResult("parity", "passed"),)
    report.exportready = Readiness("a", "plain", stages, ()).to_dict()  # type: ignore[attr-defined]
    gather.add(report)
    (result,) = gather.run({}).results
    assert result.readiness is not None
    assert not hasattr(report, "exportready")
    assert gather.results() == ()
