from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.expected import ExpectationError, read_expected
from pytest_exportready.report.nightly.observation import Cell

ENTRY = 'test = "t.py::test_vit[*"\nreason = "#1"\nowner = "ana"\nexpires = 2026-11-30\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "expected.toml"


def test_an_entry_names_cells_causes_and_its_last_day(file: Path) -> None:
    file.write_text(f'[[expected]]\n{ENTRY}code = "ER402"\nleg = "h200"\n')
    (entry,) = read_expected(file)
    assert entry.matches(Cell("t.py::test_vit[ddp]", "h200"))
    assert not entry.matches(Cell("t.py::test_vit[ddp]", "cpu"))
    assert not entry.matches(Cell("t.py::test_vitd", "h200"))
    assert entry.explains(FailureCause("export", "ER402", "any"))
    assert not entry.explains(FailureCause("export", "ER401", "any"))
    assert not entry.expired(date(2026, 11, 30))
    assert entry.expired(date(2026, 12, 1))
    assert entry.why == "#1 (ana, until 2026-11-30)"


def test_an_empty_file_expects_nothing(file: Path) -> None:
    file.write_text("# nothing is known to fail\n")
    assert read_expected(file) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[expected]", "not TOML"),
        ("expect = 1", "something else than"),
        ("expected = 1", "something else than"),
        ("expected = [1]", "entry 1: must be an object with test, reason, owner, expires"),
        ('[[expected]]\ntest = "x"', "entry 1: missing reason, missing owner, missing expires"),
        (f"[[expected]]\n{ENTRY}until = 1", "unknown until"),
        (f"[[expected]]\n{ENTRY}".replace('"ana"', '" "'), "owner is empty"),
        (f"[[expected]]\n{ENTRY}".replace('"ana"', "7"), "owner must be text, not int"),
        (f"[[expected]]\n{ENTRY}".replace("2026-11-30", '"soon"'), "expires must be a date"),
        (f"[[expected]]\n{ENTRY}".replace("2026-11-30", "2026-11-30T00:00:00"), "expires must be a date"),
    ],
)
def test_a_malformed_file_is_reported_with_its_entry(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(ExpectationError, match=message) as error:
        read_expected(file)
    assert str(error.value).startswith(str(file))


def test_what_cannot_be_read_is_reported(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ExpectationError, match="cannot be read: No such file"):
        read_expected(tmp_path / "none.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ExpectationError, match="not TOML"):
        read_expected(file)
