"""An error that ends CUDA in a process affects the case that made it, and no other."""

from __future__ import annotations

import pytest
from pretended_cuda import PretendedCuda
from user_project import Project

HEALTHY = """
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.table, self.head = nn.Embedding(20, 8), nn.Embedding(16, 8), nn.Linear(8, 2)
    def forward(self, ids):
        return self.head(self.tokens(ids) + self.table(torch.arange(ids.shape[1], device=ids.device)))
@export_ready(dynamic_shapes="auto")
def test_auto(): return Positions().eval(), (torch.randint(20, (2, 8)),)
@export_ready(dynamic_shapes=({0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")},))
def test_longer_than_the_table(): return Positions().eval(), (torch.randint(20, (2, 8)),)
"""
LOSES = """
class Loses(nn.Module):  # on a GPU only, so that a trial on the CPU does not show it
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 2)
    def forward(self, x):
        return self.table((x.sum(-1) * 0 + (9 if x.is_cuda else 1)).long())
"""
TESTS = """
@export_ready
def test_a(): return there(nn.Linear(3, 2))
@export_ready(scenarios="as_is")
def test_b(): return there(Loses())
@export_ready
def test_c(): return there(nn.Linear(3, 2))
@export_ready(strict="strict", scenarios=["plain", "ddp"])
def test_d(): return ready()
@export_ready
def test_e(): raise ValueError("cannot be built")
"""


def outcomes(
    project: Project, pretended_cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch, *args: str
) -> dict[str, str]:
    for name, value in pretended_cuda.environment(1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EXPORTREADY_GPU_LOCKS", str(project.path / "locks"))
    project.run(*args, subprocess=True)
    return project.outcomes()


def test_other_sizes(project: Project, pretended_cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that a table of positions does not have are tried on the CPU; a wrong index is found with its line."""
    project.write(HEALTHY + "@export_ready\ndef test_index(): return Positions().eval(), (torch.tensor([[30]]),)\n")
    found = outcomes(project, pretended_cuda, monkeypatch, "--export-ready-device=cuda")
    assert found == {
        "test_auto[cuda]": "passed",
        "test_longer_than_the_table[cuda]": "passed",
        "test_index[cuda]": "failed at eager",
    }
    readiness = project.results()["test_index[cuda]"].readiness
    assert readiness is not None
    (finding,) = readiness.errors
    assert finding.torch_says == "IndexError: index out of range in self"
    assert finding.file == "test_cases.py"


@pytest.mark.parametrize("cells", [True, False])
def test_cases_after_it(
    project: Project, pretended_cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch, cells: bool
) -> None:
    """In ranks that hold a GPU, and in the pytest process; those that do not use CUDA, too."""
    where = "" if cells else ".cuda()"
    there = f"def there(net): return net.eval(){where}, (torch.randn(4, 3){where},)\n"
    project.write(LOSES + there + TESTS)
    found = outcomes(project, pretended_cuda, monkeypatch, *(["--export-ready-device=cuda"] if cells else []))
    assert {name.replace("-cuda", "").replace("[cuda]", ""): outcome for name, outcome in found.items()} == {
        "test_a": "passed",
        "test_b[as_is]": "failed at eager",
        "test_c": "passed",
        "test_d[plain]": "passed",
        "test_d[ddp]": "passed",
        "test_e": "failed at case",
    }
