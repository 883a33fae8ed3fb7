"""Every rule in the source is one that a case can ignore and that ``exportready explain`` documents."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from pkgutil import walk_packages

import pytest
from user_project import Project

import exportready_fixtures
import exportready_reference_models
import pytest_exportready
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.rules import all_rules
from pytest_exportready.cli import main

PACKAGES = (pytest_exportready, exportready_fixtures, exportready_reference_models)


def constructed() -> Iterator[str]:
    """The first argument of each call of ``Rule`` in the source, wherever it stands."""
    for package in PACKAGES:
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Rule":
                    yield ast.literal_eval(node.args[0])


CODES = sorted(constructed())


def test_every_code_stands_for_one_rule() -> None:
    assert len(CODES) > 100
    assert len(set(CODES)) == len(CODES)
    names = [rule.name for rule in all_rules().values()]
    assert len(set(names)) == len(names)


def test_explain_knows_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == CODES
    for code in CODES:
        assert main(["explain", code]) == 0
        first, _, text = capsys.readouterr().out.partition("\n\n")
        assert first == f"{code} {all_rules()[code].name}"
        assert text.strip(), f"{code} has no documentation"


def test_a_case_may_ignore_every_rule_and_no_other(project: Project) -> None:
    project.write(f"@export_ready(ignore={CODES}, reason='all')\ndef test_all(): return ready()\n")
    assert project.run("--collect-only").ret == 0
    project.write("@export_ready(ignore=['ER999'], reason='none')\ndef test_none(): return ready()\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*`ignore` has the unknown name 'ER999'. Fix: *those that `exportready explain` lists."]
    )


def test_the_source_says_what_the_modules_declare() -> None:
    """Code and name, the documentation where it is an argument, and the file."""
    declared = {}
    for found in walk_packages(pytest_exportready.__path__, "pytest_exportready."):
        module = import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, Rule) and (str(module.__file__), value.code) not in declared:
                declared[str(module.__file__), value.code] = value
    for code, rule in all_rules().items():
        live = declared[str(rule.file), code]
        assert (live.code, live.name) == (code, rule.name)
        assert not live.doc or cleandoc(live.doc) == rule.doc


def test_explain_imports_neither_torch_nor_other_commands() -> None:
    program = (
        "import sys; from pytest_exportready.cli import main; main(['explain', 'ER302'])\n"
        "heavy = {'torch', 'pytest', 'jinja2', 'junitparser', 'pytest_exportready.cli.report'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
