"""The two forms of a test case in JUnit, which differ in file, line and properties.

``full`` writes attributes and ``<properties>`` of the test case, as most consumers expect. Jenkins' ``junit-10.xsd``
forbids both, so ``strict`` writes ``[[PROPERTY|name=value]]`` lines at the top of ``system-out``, up to an empty line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import junitparser
from junitparser import xunit2

_BEGIN, _END = "[[PROPERTY|", "]]"


class Case(xunit2.TestCase):
    file = junitparser.Attr()
    line = junitparser.IntAttr()


class Suite(xunit2.TestSuite):
    testcase = Case


class Report(xunit2.JUnitXml):
    testsuite = Suite


def properties(pairs: Iterable[tuple[str, str]]) -> Any:
    """Return ``<properties>`` for a suite or test case."""
    element: Any = junitparser.Properties()  # type: ignore[no-untyped-call]
    for key, value in pairs:
        element.add_property(junitparser.Property(key, value))
    return element


def read_properties(element: Any) -> dict[str, str]:
    """Return the ``<properties>`` of a suite or test case."""
    found = element.child(junitparser.Properties)
    return {prop.name or "": prop.value or "" for prop in found or ()}


def put_facts(case: Any, facts: Mapping[str, str], file: str, line: int, form: str) -> None:
    """Write file, line and facts of a test case in ``form``. Facts are single lines of text."""
    if form == "strict":
        place = {"file": file, "line": str(line) if line else ""}
        pairs = {**{key: value for key, value in place.items() if value}, **facts}
        case.system_out = "".join(f"{_BEGIN}{key}={value}{_END}\n" for key, value in pairs.items()) + "\n"
        return
    case.file = file or None
    if line:
        case.line = line
    case.append(properties(facts.items()))


def put_output(case: Any, output: str) -> None:
    """Write the output of a test case, after its facts."""
    if output:
        case.system_out = (case.system_out or "") + output


def take(case: Any, form: str) -> tuple[dict[str, str], str]:
    """Return the facts of a test case, including ``file`` and ``line``, and its output."""
    output = "\n".join(part for part in (case.system_out, case.system_err) if part)
    if form != "strict":
        return {"file": case.file or "", "line": str(case.line or 0), **read_properties(case)}, output
    head, _, output = output.partition("\n\n")
    lines = [line for line in head.split("\n") if line.startswith(_BEGIN) and line.endswith(_END)]
    pairs = (line.removeprefix(_BEGIN).removesuffix(_END).partition("=") for line in lines)
    return {key: value for key, _, value in pairs}, output
