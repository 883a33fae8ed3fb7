"""Every check against its own examples, and against the house rules."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import pytest
import torch
from pytest_exportready import checks
from pytest_exportready.check import Check, Subject, all_checks, documentation
from pytest_exportready.discover import module_names
from pytest_exportready.finding import Finding

NAMES = module_names(checks)


def _examples(kind: str) -> list[object]:
    return [
        pytest.param(check, build, id=f"{name}-{kind}{number}")
        for name, check in all_checks().items()
        for number, build in enumerate(getattr(check, kind))
    ]


def _findings(check: Check, subject: Subject) -> list[Finding]:
    found = list(check.inspect(subject))
    if check.inspect_program is not None and not found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(subject.model, subject.args, dict(subject.kwargs))
        found = list(check.inspect_program(program))
    return found


@pytest.mark.parametrize(("check", "build"), _examples("good"))
def test_good_example_is_clean(check: Check, build: Callable[[], Subject]) -> None:
    assert [str(f) for f in _findings(check, build()) if f.severity != "info"] == []


@pytest.mark.parametrize(("check", "build"), _examples("bad"))
def test_bad_example_is_found_and_said_how_to_mend(check: Check, build: Callable[[], Subject]) -> None:
    serious = [f for f in _findings(check, build()) if f.severity != "info"]
    assert serious
    for finding in serious:
        assert (finding.code, finding.name) == (check.rule.code, check.rule.name)
        assert finding.message
        assert finding.fix
        assert "tensor(" not in str(finding)


@pytest.mark.parametrize(("check", "build"), _examples("bad"))
def test_remedy_leaves_no_error_of_its_own(check: Check, build: Callable[[], Subject]) -> None:
    subject = build()
    if check.remedy is None or not list(check.inspect(subject)):
        pytest.skip("nothing that a remedy could mend")
    if check.remedy(subject):
        assert [str(f) for f in check.inspect(subject) if f.severity == "error"] == []
        assert check.remedy(subject) == []


@pytest.mark.parametrize("name", NAMES)
def test_check_keeps_the_house_rules(name: str) -> None:
    check = all_checks()[name]
    assert check.rule.name == name
    assert re.fullmatch(r"ER\d{3}", check.rule.code)
    assert check.good
    assert check.bad
    text = documentation(check)
    assert "Bad:" in text
    assert "Good:" in text


def test_codes_are_unique() -> None:
    codes = [check.rule.code for check in all_checks().values()]
    assert len(set(codes)) == len(codes)


def test_required_checks_exist() -> None:
    for check in all_checks().values():
        assert set(check.requires) <= set(NAMES)
