from __future__ import annotations

import re

import pytest

from pytest_exportready.case.rules import all_rules
from pytest_exportready.cli import main


@pytest.mark.parametrize("wanted", ["ER302", "er302", "batchnorm_frozen"])
def test_a_code_or_a_name_prints_its_documentation(wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", wanted]) == 0
    assert capsys.readouterr().out.startswith("ER302 batchnorm_frozen\n\nWhat it checks\n    Every BatchNorm")


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    codes = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert codes == sorted(codes)
    assert {"ER302", "ER201", "ER131", "ER680"} <= set(codes)


def test_an_unknown_code_names_close_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ER3O2"]) == 2
    assert "unknown rule ER3O2. Did you mean ER302 (batchnorm_frozen)" in capsys.readouterr().err
    assert main(["explain", "batchnorm"]) == 2
    assert "Did you mean ER302 (batchnorm_frozen)" in capsys.readouterr().err
    assert main(["explain", "?"]) == 2
    assert "`exportready explain` lists all rules" in capsys.readouterr().err
    assert main(["explain", "\x1b[31m" + "x" * 5000]) == 2
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert len(printed) < 250


def test_every_code_is_well_formed_and_documented() -> None:
    for code, rule in all_rules().items():
        assert re.fullmatch(r"ER\d{3}", code)
        assert re.fullmatch(r"[a-z][a-z0-9_]+", rule.name)
        assert rule.doc, f"{code} {rule.name} has no documentation"


def test_every_heading_and_line_of_an_example_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for code, rule in all_rules().items():
        assert main(["explain", code]) == 0
        printed = capsys.readouterr().out.splitlines()
        for heading, text in rule.documentation.sections.items():
            assert heading in printed, code
            if heading in ("Example", "Instead"):
                assert {line.strip() for line in text.splitlines()} <= {line.strip() for line in printed}, code
