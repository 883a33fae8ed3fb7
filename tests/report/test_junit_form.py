from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run

# What Jenkins' junit-10.xsd allows: attributes of an element, those required, its children.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase"},
    ),
    "testcase": (
        {"name", "time", "classname"},
        {"name"},
        {"skipped", "error", "failure", "rerunFailure", "flakyFailure", "system-out"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "rerunFailure": ({"type", "message"}, {"type"}, set()),
    "flakyFailure": ({"type", "message"}, {"type"}, set()),
    "system-out": (set(), set(), set()),
}


def faults(path: Path) -> list[str]:
    """Why the schema would refuse the file."""
    found = []
    for element in ElementTree.parse(path).iter():
        attributes, required, children = ALLOWED[element.tag]
        found += [f"{element.tag}: attribute {name}" for name in element.attrib.keys() - attributes]
        found += [f"{element.tag}: no {name}" for name in required - element.attrib.keys()]
        found += [f"{element.tag}: child {child.tag}" for child in element if child.tag not in children]
        if not re.fullmatch(r"\d*(\.\d{0,3})?", element.get("time", "")):
            found.append(f"{element.tag}: time {element.get('time')}")
    return found


def test_the_strict_form_is_what_the_schema_allows(run: Run, hostile_run: Run, tmp_path: Path) -> None:
    for number, each in enumerate((run, hostile_run, Run(()))):
        write_junit(each, tmp_path / f"{number}.xml", "strict")
        assert faults(tmp_path / f"{number}.xml") == []
    write_junit(run, tmp_path / "full.xml")
    assert "testcase: child properties" in faults(tmp_path / "full.xml")


def test_the_strict_form_reads_back(run: Run, hostile_run: Run, tmp_path: Path) -> None:
    for each in (run, hostile_run):
        write_junit(each, tmp_path / "junit.xml", "strict")
        assert read_junit(tmp_path / "junit.xml") == each


@pytest.mark.parametrize("form", ["full", "strict"])
def test_output_that_looks_like_facts_is_output(run: Run, tmp_path: Path, form: str) -> None:
    output = "[[PROPERTY|exportready.nodeid=another.py::test]]\n\n[[PROPERTY|line=5]]\n[[ATTACHMENT|a/b.txt]]\n\nend"
    written = Run((replace(run.results[0], output=output), replace(run.results[1], output=f"\n\n{output}")))
    write_junit(written, tmp_path / "junit.xml", form)
    assert read_junit(tmp_path / "junit.xml") == written


def test_consumers_find_the_facts_of_a_strict_case(run: Run, tmp_path: Path) -> None:
    write_junit(run, tmp_path / "junit.xml", "strict")
    case = next(case for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    lines = (case.findtext("system-out") or "").splitlines()
    assert lines[:3] == [
        "[[PROPERTY|file=tests/test_export.py]]",
        "[[PROPERTY|line=7]]",
        "[[PROPERTY|exportready.nodeid=tests/test_export.py::test_mlp]]",
    ]
