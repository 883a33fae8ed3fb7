"""The progress lines on the terminal while cases run."""

from __future__ import annotations

import pytest
from user_project import Project

CASES = """
@export_ready(stages=["export"])
def test_ready(): return ready()
@export_ready
def test_not_ready(): return None
@export_ready(xfail_stage="inspect", reason="known")
def test_expected(): return not_ready()
@export_ready
def test_no_memory(): raise MemoryError
@export_ready
@pytest.mark.skip(reason="today")
def test_skipped(): pass
@export_ready
def test_setup(no_such_fixture): pass
@pytest.fixture
def broken():
    yield
    raise ValueError
@export_ready(stages=["export"])
def test_teardown(broken): return ready()
@export_ready(stages=["export"])
@pytest.mark.xfail(strict=True, reason="known")
def test_strict(): return ready()
"""


def body(result: pytest.RunResult) -> list[str]:
    """The lines between the count of collected tests and the first section."""
    start = next(i for i, line in enumerate(result.outlines) if line.startswith("collected"))
    end = next(i for i, line in enumerate(result.outlines) if i > start and line.startswith("==="))
    return [line for line in result.outlines[start + 1 : end] if line]


def test_one_line_per_case(project: Project) -> None:
    project.write(CASES.replace('stages=["export"]', 'stages=["train"]'))
    project.write("def test_plain(): pass", "test_other.py")
    result = project.run("-rA")
    lines = pytest.LineMatcher(body(result))
    lines.fnmatch_lines(
        [
            "[[]1/8] test_cases.py::test_ready: train * -> ready (* s)",
            "[[]2/8] test_cases.py::test_not_ready: -> NOT READY at case (* s)",
            "[[]3/8] test_cases.py::test_expected: train * -> xfailed at inspect (* s)",
            "[[]4/8] test_cases.py::test_no_memory: -> inconclusive (infrastructure error at case) (* s)",
            "[[]5/8] test_cases.py::test_skipped: -> skipped (* s)",
            "[[]6/8] test_cases.py::test_setup: -> error in setup (* s)",
            "[[]7/8] test_cases.py::test_teardown: train * -> ready (* s)",
            "[[]7/8] test_cases.py::test_teardown: -> error in teardown (* s)",
            "[[]8/8] test_cases.py::test_strict: train * -> ready, but FAILED (* s)",
        ],
        consecutive=True,
    )
    assert len(lines.lines) == 9
    result.stdout.fnmatch_lines_random(
        [
            "FAILED test_cases.py::test_not_ready - Failed: not ready, failed at case: *",
            "ERROR test_cases.py::test_setup*",
            "XFAIL test_cases.py::test_expected - *",
            "SKIPPED [[]1] test_cases.py:*: today",
            "PASSED test_cases.py::test_ready",
        ]
    )
    assert any("3 failed" in line and "2 errors" in line for line in result.outlines[-2:])


def test_verbose_and_quiet_lines_are_those_of_pytest(project: Project) -> None:
    project.write("@export_ready(stages=['train'])\ndef test_x(): return ready()")
    project.run("-v").stdout.fnmatch_lines(["test_cases.py::test_x train inspect PASSED *[[]100%]"])
    live = project.run("--log-cli-level=INFO")
    live.stdout.fnmatch_lines(["test_cases.py::test_x train inspect PASSED*"])
    assert "[1/1]" not in live.stdout.str()
    quiet = project.run("-q")
    assert quiet.outlines[0].split() == [".", "[100%]"]
    assert "train inspect" not in quiet.stdout.str()


def test_print_does_not_break_the_count(project: Project) -> None:
    project.write("""
@export_ready(stages=["train"])
@pytest.mark.parametrize("n", [1, 2])
def test_x(n, capsys):
    print("loud")
    return ready()
""")
    for args in (["-s"], [], ["-p", "no:capture"]):
        result = project.run(*args)
        result.assert_outcomes(passed=2) if "no:capture" not in args else None
        result.stdout.fnmatch_lines(["[[]2/2] test_cases.py::test_x[[]2]: *"])


def test_the_total_counts_what_is_left_to_run(project: Project) -> None:
    project.write("""
@export_ready(stages=["train"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_x(n): return ready() if n != 2 else None
""")
    run = project.pytester.runpytest_inprocess
    flags = ("--export-ready", "--export-ready-reference-models=never")
    run(*flags).stdout.fnmatch_lines(["[[]3/3] *"])
    run(*flags, "--lf").stdout.fnmatch_lines(["[[]1/1] *[[]2]: -> NOT READY at case*"])
    run(*flags, "-k", "2 or 3").stdout.fnmatch_lines(["[[]2/2] *"])


def test_ids_with_slashes_and_subtests(project: Project) -> None:
    project.write("""
@export_ready(stages=["train"])
@pytest.mark.parametrize("n", ["a/b"])
def test_x(n, request):
    for number in range(2):
        try:
            subtests = request.getfixturevalue("subtests")
        except pytest.FixtureLookupError:
            break
        with subtests.test(number=number): pass
    return ready()
""")
    folder = project.pytester.mkdir("sub")
    (project.path / "test_cases.py").rename(folder / "test_cases.py")
    result = project.run()
    assert "[1/1] test_cases.py::test_x[a/b]: " in result.stdout.str()
    assert result.stdout.str().count("->") == 1
