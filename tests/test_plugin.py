"""Without ``--export-ready``."""

from __future__ import annotations

import pytest

WATCH = """
import sys

def pytest_unconfigure():
    print("IMPORTED", sorted({"torch", "jinja2", "junitparser", "filelock"} & set(sys.modules)))
"""

MARKED = """
import unittest
import pytest
from pytest_exportready import export_ready

def test_plain(): pass

@export_ready
def test_bare(): raise AssertionError

@export_ready(dynamic_batch=True, scenarios=["plain", "as_is"])
@pytest.mark.parametrize("x", [1, 2])
def test_arguments(x, no_such_fixture): raise AssertionError

@pytest.mark.export_ready
async def test_async(): raise AssertionError

@pytest.mark.export_ready(3, nonsense=4, scenarios=object())
def test_malformed(): raise AssertionError

@export_ready(scenarios=["no_such"])
class TestClass:
    def test_method(self): raise AssertionError

@export_ready
class TestUnit(unittest.TestCase):
    def test_unit(self): raise AssertionError
"""


def test_inert(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(WATCH)
    pytester.makepyfile(test_marked=MARKED)
    result = pytester.runpytest_subprocess(
        "--strict-markers", "-rs", "-W", "error", "-p", "no:cacheprovider", "--export-ready-html=/dev/null"
    )
    result.assert_outcomes(passed=1, skipped=7)
    result.stdout.fnmatch_lines(["*export cases run only with --export-ready"])
    result.stdout.fnmatch_lines(["*IMPORTED []*"])
    assert not (pytester.path / "exportready").exists()


def test_the_marker_selects(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked=MARKED)
    pytester.runpytest_inprocess("-m", "not export_ready").assert_outcomes(passed=1, deselected=7)


def test_help_and_markers(pytester: pytest.Pytester) -> None:
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.export_ready(*): *"])
    pytester.runpytest_inprocess("--help").stdout.fnmatch_lines(["*--export-ready-junit=VALUE*"])
