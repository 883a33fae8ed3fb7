from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_exportready.report import logs
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run

LOG = "\n".join(f"line {number}" for number in range(5_000))


def logged(run: Run, nodeid: str = "a.py::test_a") -> Run:
    return Run((replace(run.results[1], nodeid=nodeid, output=LOG),))


@pytest.mark.parametrize("form", ["full", "strict"])
def test_a_long_log_is_a_file_that_ci_services_find(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_junit(logged(run), tmp_path / "out" / "junit.xml", form)
    text = next(ElementTree.parse(tmp_path / "out" / "junit.xml").iter("system-out")).text or ""
    (line,) = [line for line in text.splitlines() if line.startswith("[[ATTACHMENT|")]
    path = tmp_path / line.removeprefix("[[ATTACHMENT|").removesuffix("]]")
    assert path.read_text() == LOG
    assert len(text) < 16_000
    assert "line 4999" in text
    assert read_junit(tmp_path / "out" / "junit.xml") == logged(run)


def test_a_log_that_is_gone_leaves_its_excerpt(run: Run, tmp_path: Path) -> None:
    write_junit(logged(run), tmp_path / "junit.xml")
    (path,) = (tmp_path / "junit-logs").iterdir()
    path.unlink()
    output = read_junit(tmp_path / "junit.xml").results[0].output
    assert output.startswith("line 0\n")
    assert "characters left out" in output
    assert output.endswith("line 4999")


def test_a_renamed_report_finds_its_logs(run: Run, tmp_path: Path) -> None:
    write_junit(logged(run), tmp_path / "junit.xml")
    (tmp_path / "junit.xml").rename(tmp_path / "tonight.xml")
    assert read_junit(tmp_path / "tonight.xml") == logged(run)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("../secret/{name}", id="beside the report's folder"),
        pytest.param("junit-logs/../secret/{name}", id="out of the logs"),
        pytest.param("junit-logs/other.txt", id="not the case's own"),
        pytest.param("../{name}", id="the folder above"),
        pytest.param("link/{name}", id="a folder that is a link"),
        pytest.param("junit-logs/{name}", id="a file that is a link"),
    ],
)
def test_no_other_file_is_opened(run: Run, tmp_path: Path, written: str) -> None:
    report = tmp_path / "report"
    write_junit(logged(run), report / "junit.xml")
    (path,) = (report / "junit-logs").iterdir()
    secret = tmp_path / "secret"
    secret.mkdir()
    for place in (secret / path.name, tmp_path / path.name, report / "junit-logs" / "other.txt"):
        place.write_text("secret")
    path.unlink()
    path.symlink_to(secret / path.name)
    (report / "link").symlink_to(secret)
    text = (report / "junit.xml").read_text()
    begin = text.index("[[ATTACHMENT|")
    end = text.index("]]", begin)
    (report / "junit.xml").write_text(f"{text[:begin]}[[ATTACHMENT|{written.format(name=path.name)}{text[end:]}")
    assert "secret" not in read_junit(report / "junit.xml").results[0].output


@pytest.mark.parametrize("nodeid", ["../../x.py::test[/etc/passwd]", "\x00\ud800", "a" * 5_000, "con:|<>*?"])
def test_a_hostile_id_names_a_harmless_file(run: Run, tmp_path: Path, nodeid: str) -> None:
    write_junit(logged(run, nodeid), tmp_path / "junit.xml")
    (path,) = (tmp_path / "junit-logs").iterdir()
    assert path.name == f"{logged(run, nodeid).results[0].anchor}.txt"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["junit-logs", "junit.xml"]


def test_logs_of_an_earlier_run_do_not_stay(run: Run, tmp_path: Path) -> None:
    write_junit(logged(run, "a.py::old"), tmp_path / "junit.xml")
    (tmp_path / "junit-logs" / "mine.txt").write_text("of the user")
    write_junit(logged(run, "a.py::new"), tmp_path / "junit.xml")
    names = {path.name for path in (tmp_path / "junit-logs").iterdir()}
    assert names == {"mine.txt", f"{logged(run, 'a.py::new').results[0].anchor}.txt"}
    (tmp_path / "junit-logs" / "mine.txt").unlink()
    write_junit(Run(run.results[:1]), tmp_path / "junit.xml")
    assert not (tmp_path / "junit-logs").exists()


def test_all_logs_together_have_a_limit(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "TOTAL_LIMIT", 3 * len(LOG))
    many = Run(tuple(replace(run.results[1], nodeid=f"a.py::{number}", output=LOG) for number in range(5)))
    write_junit(many, tmp_path / "junit.xml")
    assert len(list((tmp_path / "junit-logs").iterdir())) == 3
    outputs = [result.output for result in read_junit(tmp_path / "junit.xml").results]
    assert [output == LOG for output in outputs] == [True, True, True, False, False]
