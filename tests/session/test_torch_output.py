"""Output of torch is not printed to the terminal while a case is judged; other output is."""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import pytest
from user_project import Project

from pytest_exportready.session.torch_output import TRACE, torch_output_kept

BRANCH = """
import logging, sys

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        print("the user, in forward", file=sys.stderr)
        logging.getLogger("users").warning("the user's log")
        n = int(x.abs().max().item())
        return self.fc(x)[:n + 1]

@export_ready(dynamic_batch=True, stages=["export"])
def test_branch():
    print("the user, in the case", file=sys.stderr)
    return Branch().eval(), (torch.randn(4, 3),)
"""
GRAPH = "torch.ops.aten.item.default"


@pytest.mark.parametrize("arguments", [[], ["-s"], ["-n", "1"]], ids=" ".join)
def test_graphs_of_a_failed_export_are_in_the_report_only(project: Project, arguments: list[str]) -> None:
    project.write(BRANCH)
    result = project.run(*arguments, subprocess=bool(arguments))
    result.assert_outcomes(failed=1)
    terminal = result.stdout.str() + result.stderr.str()
    assert GRAPH not in terminal
    assert "the user, in the case" in terminal
    assert "the user, in forward" in terminal
    output = project.results()["test_branch"].output
    assert "--- Output of torch ---" in output
    assert GRAPH in output


def test_output_that_torch_logs_requests_is_printed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "graph_breaks")
    project.write(BRANCH)
    assert GRAPH in project.run(subprocess=True).stdout.str()


def fake_torch(code: str) -> ModuleType:
    module = ModuleType("torch.fake")
    exec(f"import logging, sys, traceback, warnings\ndef speak():\n    {code}", vars(module))
    return module


@pytest.mark.parametrize(
    "code",
    [
        "print('spoken', file=sys.stderr)",
        "sys.stderr.write('spoken')",
        "logging.getLogger('torch.fake').warning('spoken')",
        "traceback.print_exception(ValueError('spoken'))",
    ],
)
def test_forms_of_output(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("torch.fake")
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        with torch_output_kept() as kept:
            fake_torch(code).speak()
            print("a bystander", file=sys.stderr)
        assert handler.stream is sys.stderr
    finally:
        logger.removeHandler(handler)
    assert "spoken" in kept.getvalue()
    assert capsys.readouterr().err == "a bystander\n"


@pytest.mark.parametrize("name", [TRACE, "torch.fake"])
def test_handlers_of_pytest_are_removed_and_restored(caplog: pytest.LogCaptureFixture, name: str) -> None:
    """Torch takes any handler on its trace logger as a request for a full trace."""
    logger = logging.getLogger(name)
    before = list(logger.handlers)
    own = logging.NullHandler()
    logger.addHandler(own)
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(KeyError), torch_output_kept():  # noqa: PT012
            assert caplog.handler not in logger.handlers
            assert own in logger.handlers
            raise KeyError
        assert caplog.handler in logger.handlers
    finally:
        logger.handlers = before
