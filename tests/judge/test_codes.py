"""Every code stands for one thing, and a marker may name each."""

from __future__ import annotations

from pytest_exportready.checks import all_checks
from pytest_exportready.diagnosis import all_diagnoses
from pytest_exportready.judge.codes import known_codes
from pytest_exportready.stages import all_stages


def test_known_codes_are_unique() -> None:
    """One code, one rule: stages, checks and diagnoses."""
    codes = [check.rule.code for check in all_checks().values()]
    codes += [rule.code for stage in all_stages().values() for rule in stage.rules]
    codes += [diagnosis.rule.code for diagnosis in all_diagnoses().values()]
    assert len(codes) == len(set(codes))
    assert set(codes) <= known_codes()
