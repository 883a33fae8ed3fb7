"""With --export-ready-cache a second run reports which results are from the cache."""

from __future__ import annotations

import pytest

CASE = """
import torch
from torch import nn
from pytest_exportready import export_ready

@export_ready(scenarios=["as_is"])
def test_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval(), (torch.ones(2, 4),)
"""


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    options = ("--export-ready", "--export-ready-reference-models=never", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*options, *args)


def test_a_second_run_reports_cached_results(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_net=CASE)
    fresh = "Ready: 1 of 1 case passed every stage that ran"
    assert fresh in run(pytester, "--export-ready-cache=on").outlines
    assert f"{fresh}; 1 partly from the cache" in run(pytester, "--export-ready-cache=read", "-n1").outlines
    assert "passed 0.000 s: cached 2" in (pytester.path / "exportready/junit.xml").read_text()
    (entry,) = (pytester.path / ".exportready_cache").glob("*/*.json")
    entry.write_text("{")
    spoilt = run(pytester, "--export-ready-cache=on", "-Werror")
    assert fresh in spoilt.outlines
    spoilt.stdout.fnmatch_lines("*ER105 case_can_be_cached*The corrupt cache entry * was dropped*")
