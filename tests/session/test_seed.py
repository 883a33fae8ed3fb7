"""A case has the same random weights and inputs in each run, in each rank and after any other case."""

from __future__ import annotations

import pytest
from user_project import Project

CASE = """
import os, random
from pathlib import Path

def record(request, *numbers):
    name = f"{request.node.name}-{os.environ.get('RUN', '')}-{os.getpid()}"
    Path(name).write_text(str(numbers))

@pytest.fixture
def number(): return random.random()

@export_ready(stages=["export"], scenarios=["plain", "ddp"])
def test_case(request, number):
    model, args = ready()
    record(request, number, model.weight.tolist(), args[0].tolist())
    return model, args
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_runs_have_the_same_numbers(
    project: Project, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, in ranks, in workers; behind another case or alone."""
    project.write("@export_ready(stages=['export'])\ndef test_before(): return ready()\n" + CASE)
    for run, chosen in enumerate([(), ("-k", "test_case")]):
        monkeypatch.setenv("RUN", str(run))
        assert project.run(*arguments, *chosen, subprocess=True).ret == 0
    for scenario in ("plain", "ddp"):
        files = list(project.path.glob(f"test_case[[]{scenario}]-*"))
        assert len(files) == (2 if scenario == "plain" else 4)
        assert len({file.read_text() for file in files}) == 1


def test_a_fixture_may_set_another_seed(project: Project) -> None:
    project.write("""
@pytest.fixture(autouse=True)
def seeded(): torch.manual_seed(7)

@export_ready(stages=["export"])
def test_case():
    model, args = ready()
    torch.manual_seed(7)
    assert model.weight.equal(ready()[0].weight)
    return model, args
""")
    assert project.run().ret == 0
