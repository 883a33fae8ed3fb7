"""Signals and `os._exit` end the session or a case, and the reports are written."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from user_project import Project

from pytest_exportready.session.graceful_exit import exit_is_raised, reported_on_sigterm

THREE = """
import os, signal

class Ends(nn.Module):
    def forward(self, x):
        {ends}
        return x

@export_ready(stages=["export"], scenarios=["as_is"])
def test_before(): return ready()

@export_ready(stages=["export"], scenarios=["as_is"])
def test_ends():
    return Ends(), (torch.randn(3),)

@export_ready(stages=["export"], scenarios=["as_is"])
def test_behind(): return ready()
"""
TERMINATES = THREE.format(ends="os.kill(os.getpid(), signal.SIGTERM)")


def outcomes(project: Project) -> dict[str, str]:
    return {name.partition("[")[0]: result.outcome for name, result in project.results().items()}


def test_sigterm_ends_the_session_with_its_reports(project: Project) -> None:
    project.write(TERMINATES)
    result = project.run(subprocess=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert outcomes(project) == {"test_before": "passed", "test_ends": "infra", "test_behind": "infra"}
    result.stdout.fnmatch_lines(["Inconclusive: *", "*terminated by SIGTERM*"])
    assert (project.path / "exportready/report.html").exists()


def test_a_handler_of_the_user_stays_in_place(project: Project) -> None:
    project.write("import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)", "conftest.py")
    project.write(TERMINATES)
    assert project.run(subprocess=True).ret == 0
    assert set(outcomes(project).values()) == {"passed"}


@pytest.mark.parametrize("place", ["forward", "case"])
def test_a_case_that_exits(project: Project, place: str) -> None:
    """The case fails, also with status 0, and the other cases are judged."""
    text = THREE.format(ends="os._exit(0)" if place == "forward" else "pass")
    project.write(text.replace("return Ends()", "os._exit(0)\n    return Ends()") if place == "case" else text)
    result = project.run(subprocess=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = outcomes(project)
    assert (found.pop("test_before"), found.pop("test_behind")) == ("passed", "passed")
    assert found["test_ends"] in ("failed", "infra")
    assert "os._exit(0)" in next(r.message for name, r in project.results().items() if "test_ends" in name)


def test_a_forked_child_still_exits() -> None:
    """The original function is restored afterwards."""
    leave: Any = os._exit
    with exit_is_raised():
        if (child := os.fork()) == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(SystemExit, match=r"os\._exit\(3\)"):
            os._exit(3)
    assert os._exit is leave


def test_another_thread_ends_the_process(pytester: pytest.Pytester) -> None:
    """pytest-timeout does so."""
    script = pytester.makepyfile("""
        import os, threading
        from pytest_exportready.session.graceful_exit import exit_is_raised
        with exit_is_raised():
            threading.Thread(target=os._exit, args=(5,)).start()
            threading.Event().wait()
    """)
    assert pytester.runpython(script).ret == 5


def test_sigterm_is_handled_only_in_the_main_thread() -> None:
    def work() -> None:
        with reported_on_sigterm():
            handlers.append(signal.getsignal(signal.SIGTERM))

    handlers: list[Any] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
