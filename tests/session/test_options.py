from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_exportready.report.shard import Shard
from pytest_exportready.session.options import Options, read_options


def options(pytester: pytest.Pytester, *args: str) -> Options:
    return read_options(pytester.parseconfig(*args))


def test_defaults(pytester: pytest.Pytester) -> None:
    where = pytester.path / "exportready"
    kept = "off", pytester.path / ".exportready_cache", 256 << 20
    assert options(pytester) == Options(False, where / "junit.xml", where / "report.html", *kept, None, None, "auto")


def test_paths_are_relative_to_where_pytest_was_called(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = pytester.mkdir("sub")
    pytester.makeini("[pytest]\nexport_ready_junit = a.xml")
    monkeypatch.chdir(folder)
    got = options(pytester, "--export-ready", f"--export-ready-html={tmp_path}/b.html")
    kept = "off", folder / ".exportready_cache", 256 << 20
    assert got == Options(True, folder / "a.xml", tmp_path / "b.html", *kept, None, None, "auto")


def test_the_form_of_the_junit_file(pytester: pytest.Pytester) -> None:
    assert options(pytester, "--export-ready", "--export-ready-junit-form=strict").junit_form == "strict"
    with pytest.raises(pytest.UsageError, match=r"junit-form=loose is not accepted\. Fix: Use full or strict"):
        options(pytester, "--export-ready", "--export-ready-junit-form=loose")


native_toml = pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 reads [tool.pytest]")
INI = """\
export_ready = true
export_ready_junit = j.xml
export_ready_html = h.html
export_ready_reference_models = never
export_ready_cache = read
export_ready_cache_dir = kept
export_ready_cache_mib = 2
export_ready_shard = 1/3
export_ready_shard_times = j.xml
"""
TOML = re.sub(r"= (?!true)(\S+)", r"= '\1'", INI)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", f"[pytest]\n{INI}"),
        ("pyproject.toml", f"[tool.pytest.ini_options]\n{TOML}"),
        pytest.param("pyproject.toml", f"[tool.pytest]\n{TOML}", marks=native_toml),
    ],
    ids=["pytest.ini", "ini_options", "native"],
)
def test_ini_options(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(text)
    (pytester.path / "j.xml").touch()
    got = options(pytester)
    kept = "read", pytester.path / "kept", 2 << 20
    assert got == Options(
        True, pytester.path / "j.xml", pytester.path / "h.html", *kept, Shard(1, 3), pytester.path / "j.xml", "never"
    )
    assert options(pytester, "--export-ready-reference-models=always").reference_models == "always"


def test_addopts(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --export-ready")
    assert options(pytester).enabled


@pytest.mark.parametrize(
    ("arg", "message"),
    [
        ("--export-ready-reference-models=some", "Use auto, always or never"),
        ("--export-ready-junit=.", "is not a file"),
        ("--export-ready-html=", "is not a file"),
        ("--export-ready-junit=/dev/null", "is not a file"),
        ("--export-ready-html=/dev/null/page/report.html", "/dev/null is not a directory"),
        ("--export-ready-junit=exportready/report.html", "Use two different paths"),
        ("--export-ready-cache=yes", "Use off, read or on"),
        ("--export-ready-cache-mib=0", "whole number of MiB"),
    ],
)
def test_a_value_that_is_not_accepted_is_a_usage_error(pytester: pytest.Pytester, arg: str, message: str) -> None:
    with pytest.raises(pytest.UsageError, match=message):
        options(pytester, "--export-ready", arg)
    assert not options(pytester, arg).enabled


def test_names_that_the_file_system_rejects_are_reported_when_they_are_written(pytester: pytest.Pytester) -> None:
    assert options(pytester, "--export-ready", f"--export-ready-junit={'n' * 300}").enabled
