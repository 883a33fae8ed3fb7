"""The hooks of the user: their arguments, and that their exceptions do not change a verdict."""

from __future__ import annotations

import pytest
import torch._dynamo  # noqa: F401  pytester forgets modules that a run imports first
from user_project import Project

CASES = """
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
    def forward(self, x):
        x = self.inner(x)
        return x if x.sum() > 0 else -x

class Inner(nn.Module):
    def forward(self, x):
        return x + torch.zeros(3, device="meta") if torch.compiler.is_exporting() else x

class Devices(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return self.inner(x)

@export_ready(stages=["export"], strict="both")
def test_devices(): return Devices().eval(), (torch.randn(4, 3),)

@export_ready(stages=["export"])
def test_good(): return ready()

@export_ready(stages=["export"])
def test_bad(): return Branches().eval(), (torch.randn(4, 3),)
"""


def test_arguments_of_the_hooks(project: Project) -> None:
    """The case, the mode, the operator calls with their places; of a failure the error and the user's frames."""
    project.write(CASES)
    project.write(
        """
def pytest_exportready_graph_created(case, mode, program, nodes):
    print("CREATED", case, mode, type(program).__name__, [(n.target, n.module, len(n.stack)) for n in nodes])

def pytest_exportready_export_failed(case, mode, error, module, stack, target, source_functions):
    print("FAILED", case, mode, type(error).__name__, module, stack[-1][1], len(stack), target, source_functions)
""",
        "conftest.py",
    )
    result = project.run("-s")
    line = (project.path / "test_cases.py").read_text().splitlines().index(
        "        return x if x.sum() > 0 else -x"
    ) + 1
    result.stdout.fnmatch_lines_random(
        [
            "*CREATED test_cases.py::test_good non-strict ExportedProgram [[]('aten.linear.default', '', *",
            f"*FAILED test_cases.py::test_bad non-strict GuardOnDataDependentSymNode  {line} 1 *"
            " [[]'Branches.forward'[]]*",
            "*FAILED test_cases.py::test_devices non-strict FakeTensorDeviceMismatchError inner * 2 aten.add.Tensor "
            "[[]'Devices.forward', 'Inner.forward'[]]*",
            "*FAILED test_cases.py::test_devices strict TorchRuntimeError inner * 2 aten.add.Tensor "
            "[[]'Devices.forward', 'Inner.forward'[]]*",
        ]
    )


@pytest.mark.parametrize("raises", ["raise ValueError('oops')", "pytest.skip('oops')", "pytest.fail('oops')"])
def test_an_exception_in_a_hook_is_a_warning(raises: str, project: Project) -> None:
    project.write(CASES)
    project.write(f"import pytest\ndef pytest_exportready_graph_created(nodes):\n    {raises}\n", "conftest.py")
    project.run()
    failed = dict.fromkeys(["test_bad", "test_devices"], "failed at export")
    assert project.outcomes() == {"test_good": "passed", **failed}
    (finding,) = [f for f in project.results()["test_good"].readiness.findings if f.code == "ER131"]
    assert (finding.severity, finding.file, finding.line) == ("warning", "conftest.py", 3)
    assert "oops" in finding.message


def test_the_hooks_are_known_without_the_flag(project: Project) -> None:
    """A conftest.py that has them is valid in every run; a wrong argument is named by pytest."""
    project.write(CASES)
    project.write("def pytest_exportready_export_failed(error): ...\n", "conftest.py")
    assert project.pytester.runpytest_inprocess("-p", "no:cacheprovider").ret == 0
    project.write("def pytest_exportready_export_failed(errror): ...\n", "conftest.py")
    assert project.pytester.runpytest_inprocess("-p", "no:cacheprovider").ret != 0
