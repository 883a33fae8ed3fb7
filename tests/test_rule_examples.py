"""The examples in the documentation of the rules run: *Example* is reported, *Instead* is not."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
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


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that can be found again, as checks that read the source of a class need it."""
    module = ModuleType("example")
    module.__file__ = str(tmp_path / "example.py")
    monkeypatch.setitem(sys.modules, "example", module)
    return module


def reported(rule: KnownRule, heading: str, module: ModuleType) -> set[str]:
    """Return the codes that an example reports, by the checks that it calls or the assertion that it fails."""
    codes: set[str] = set()

    def check(*args: Any, **kwargs: Any) -> Readiness:
        readiness = export_ready_check(*args, **kwargs)
        codes.update(finding.code for finding in readiness.findings)
        return readiness

    scope = vars(module)
    scope |= {name: getattr(pytest_exportready, name) for name in pytest_exportready.__all__}
    scope |= {"torch": torch, "nn": nn, "F": F, "export_ready_check": check}
    source, file = rule.documentation.sections[heading], Path(str(module.__file__))
    file.write_text(source)
    linecache.checkcache(str(file))
    assert_passes(lambda: exec(compile(source, file, "exec"), scope), rule, codes)
    assert "export_ready_check(" in source or "assert_" in source, "an example ends in a call that judges it"
    return codes


def assert_passes(run: Callable[[], None], rule: KnownRule, codes: set[str]) -> None:
    try:
        run()
    except AssertionError as error:  # of an assert_<rule> in the example
        if rule.code not in str(error):
            raise
        codes.add(rule.code)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_examples(rule: KnownRule, module: ModuleType) -> None:
    torch.manual_seed(0)
    assert rule.code in reported(rule, "Example", module)
    torch.manual_seed(0)
    assert rule.code not in reported(rule, "Instead", module)
