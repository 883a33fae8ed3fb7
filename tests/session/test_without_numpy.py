"""Cases are judged without NumPy, also if warnings are errors."""

from __future__ import annotations

import pytest
from user_project import Project

CASE = """
@export_ready(dynamic_batch=True, scenarios=["plain", "ddp"])
def test_case():
    with pytest.raises(ModuleNotFoundError, match="No module named 'numpy'"):
        import numpy
    return ready()
"""


@pytest.mark.usefixtures("without_numpy")
@pytest.mark.parametrize("arguments", [(), ("-p", "no:xdist"), ("-n", "1")], ids=" ".join)
def test_cases_are_ready(project: Project, arguments: tuple[str, ...]) -> None:
    """conftest.py imports torch before the session is configured."""
    project.write("import torch", "conftest.py")
    project.write(CASE)
    result = project.run("-W", "error", *arguments, subprocess=True)
    assert project.outcomes() == {"test_case[plain]": "passed", "test_case[ddp]": "passed"}
    assert result.ret == 0
    assert "NumPy" not in result.stdout.str() + result.stderr.str()


@pytest.mark.usefixtures("without_numpy")
def test_an_option_of_the_environment_makes_warnings_errors(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that load a saved program and that start ranks inherit it."""
    monkeypatch.setenv("PYTHONWARNINGS", "error::UserWarning")
    project.write(CASE)
    assert project.run(subprocess=True).ret == 0
    assert project.outcomes() == {"test_case[plain]": "passed", "test_case[ddp]": "passed"}
