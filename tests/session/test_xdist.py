"""pytest-xdist: what workers send, and workers that die."""

from __future__ import annotations

import pytest
from test_reporting import HOSTILE
from user_project import Project

MIXED = """
@export_ready(scenarios=["plain", "as_is"], dynamic_batch=True)
@pytest.mark.parametrize("n", [3, 5])
def test_ready(n, tmp_path): return ready(n)
@export_ready
def test_not_ready(): return not_ready()
@export_ready(xfail_stage="inspect", reason="known")
def test_expected(): return not_ready()
@export_ready
def test_raises(): raise ValueError("no weights")
@export_ready
def test_skips(): pytest.skip("no weights")
@export_ready
def test_setup(no_such_fixture): pass
def test_plain(): pass
"""


def reported(project: Project) -> dict[str, object]:
    return {
        name: (
            result.outcome,
            result.message,
            result.classname,
            result.file,
            result.line,
            [(s.name, s.outcome, s.mode, s.reason) for s in result.readiness.stages] if result.readiness else [],
            [(f.code, f.message, f.line) for f in result.readiness.findings] if result.readiness else [],
        )
        for name, result in project.results().items()
    }


def test_the_same_verdicts_and_stages(project: Project) -> None:
    project.write(MIXED)
    alone = project.run("-n", "0", subprocess=True)
    expected = reported(project)
    together = project.run("-n", "2", subprocess=True)
    assert reported(project) == expected
    assert together.ret == alone.ret == pytest.ExitCode.TESTS_FAILED
    lines = [line for line in together.outlines if " -> " in line]
    assert [line.partition("]")[0] for line in lines] == [f"[{n}/9" for n in range(1, 10)]
    together.stdout.fnmatch_lines_random(
        [
            "*test_cases.py::test_not_ready: -> NOT READY at inspect (* s)",
            "*test_cases.py::test_skips: -> skipped (* s)",
            "*test_cases.py::test_setup: -> error in setup (* s)",
            "FAILED test_cases.py::test_raises - ValueError: no weights",
        ]
    )


WRONG = """
@export_ready(dynamic_bach=True, note="\\udcff")
def test_case(): pass
@pytest.mark.world(2, timeout=-1)
@export_ready
def test_both(): pass
@export_ready(stages=["export"])
def test_good(): return ready()
"""


def test_a_wrong_marker_fails_its_case(project: Project) -> None:
    project.write(WRONG)
    assert project.run("-n", "2", subprocess=True).ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {
        "test_case": "failed at case",
        "test_both": "failed at case",
        "test_good": "passed",
    }
    assert "dynamic_bach" in project.results()["test_case"].message
    assert "`world` got timeout=-1, which is not a positive number. Fix: " in project.results()["test_both"].message


def test_hostile_text_and_workers_that_die(project: Project) -> None:
    project.write(
        HOSTILE
        + """
import os, signal
@export_ready
def test_leaves(): os.kill(os.getpid(), signal.SIGKILL)
@export_ready
def test_aborts(): os.abort()
@export_ready(stages=["train"])
def test_after(): return ready()
"""
    )
    result = project.run("-n", "2", "--tb=line", "--show-capture=no", subprocess=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    result.stdout.fnmatch_lines(["[[]*/14] test_cases.py::test_leaves: -> lost, its process crashed*"])
    outcomes = project.outcomes()
    assert len(outcomes) == 14
    assert outcomes["test_leaves"] == outcomes["test_aborts"] == "infra"
    assert outcomes["test_after"] == "passed"
    assert outcomes["test_message"] == outcomes["test_output"] == "failed at case"


def test_a_reference_model_in_an_empty_folder(project: Project) -> None:
    result = project.run("-n", "2", "-k", "mlp and (plain or ddp)", models="auto", subprocess=True)
    assert result.ret == 0
    names = {f"mlp.py::test_mlp[{scenario}]" for scenario in ("plain", "ddp", "ddp_amp")}
    result.stdout.fnmatch_lines_random([f"[[]*/3] {name.replace('[', '[[]')}: -> ready (* s)" for name in names])
    assert {case.nodeid.partition("/")[2] for case in project.results().values()} == names


def test_interrupted(project: Project) -> None:
    project.write("""
@export_ready(stages=["train"])
def test_one(): return ready()
@export_ready
def test_two(): raise KeyboardInterrupt
@export_ready
def test_three(): return None
""")
    result = project.run("-n", "1", subprocess=True)
    assert result.ret != 0
    assert project.outcomes()["test_one"] == "passed"
    assert project.outcomes()["test_two"] == "infra"


def test_the_last_case_kills_its_worker(project: Project) -> None:
    project.write("""
import os, signal
@export_ready(stages=["train"])
def test_one(): return ready()
@export_ready
def test_two(): os.kill(os.getpid(), signal.SIGKILL)
""")
    for restart in ("1", "0"):
        result = project.run("-n", "1", f"--max-worker-restart={restart}", subprocess=True)
        assert result.ret != 0
        assert project.outcomes() == {"test_one": "passed", "test_two": "infra"}
