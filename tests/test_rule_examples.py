"""The examples in the documentation of the rules run: *Example* is reported, *Instead* is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pytest_exportready
from pytest_exportready import Readiness, export_ready_check
from pytest_exportready.case.rules import KnownRule, all_rules

RULES = [rule for rule in all_rules().values() if "Example" in rule.documentation.sections]


def reported(rule: KnownRule, heading: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the codes that an example reports, by the checks that it calls or the assertion that it fails."""
    codes: set[str] = set()

    def check(*args: Any, **kwargs: Any) -> Readiness:
        readiness = export_ready_check(*args, **kwargs)
        codes.update(finding.code for finding in readiness.findings)
        return readiness

    module = ModuleType("example")  # a strict export imports the module of the code that it traces
    monkeypatch.setitem(sys.modules, module.__name__, module)
    scope = vars(module)
    scope.update((name, getattr(pytest_exportready, name)) for name in pytest_exportready.__all__)
    scope.update(torch=torch, nn=nn, F=F, export_ready_check=check)
    source = rule.documentation.sections[heading]
    assert_passes(lambda: exec(compile(source, f"{rule.code} {heading}", "exec"), scope), rule, codes)
    assert "export_ready_check(" in source or "assert_" in source, "an example ends in a call that judges it"
    return codes


def assert_passes(run: Callable[[], None], rule: KnownRule, codes: set[str]) -> None:
    try:
        run()
    except AssertionError as error:  # of an assert_<rule> in the example
        if rule.code not in str(error):
            raise
        codes.add(rule.code)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_examples(rule: KnownRule, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    assert rule.code in reported(rule, "Example", monkeypatch)
    torch.manual_seed(0)
    assert rule.code not in reported(rule, "Instead", monkeypatch)
