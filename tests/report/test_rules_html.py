from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.case.rules import all_rules
from pytest_exportready.report.html import write_html
from pytest_exportready.report.rules_html import rules_html, write_rules
from pytest_exportready.report.run import Run, TestResult

CODES = list(all_rules())


def run_with(*codes: str) -> Run:
    findings = tuple(Finding(code, "name", "error", "net", "is wrong", "", stage="export") for code in codes)
    record = Readiness("vit", "plain", (StageResult("export", "failed"),), findings)
    return Run((TestResult("t.py::test_vit", "t", "test_vit", outcome="failed", readiness=record),))


def links(page: Path) -> list[tuple[str, str]]:
    """Return file and fragment of each link to another file."""
    return re.findall(r'<a href="([^"#]+)#([^"]+)"', page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["report.html", "rules.html", "Rules.html"])
def test_every_finding_with_a_known_code_links_to_its_documentation(tmp_path: Path, name: str) -> None:
    report = tmp_path / name
    write_html(run_with(*CODES), report)
    write_rules(report)
    found = links(report)
    assert {fragment for _, fragment in found} == {code.lower() for code in CODES}
    for file, fragment in found:
        assert file != name
        assert f'id="{fragment}"' in (tmp_path / file).read_text(encoding="utf-8")


def test_each_link_is_at_the_finding_and_at_its_cause(tmp_path: Path) -> None:
    write_html(run_with("ER302"), tmp_path / "report.html")
    assert links(tmp_path / "report.html") == [("rules.html", "er302")] * 2


def test_an_unknown_code_has_no_link(tmp_path: Path) -> None:
    write_html(run_with("XX001", "ER9999", "<b>"), tmp_path / "report.html")
    assert links(tmp_path / "report.html") == []


def test_the_page_is_self_contained_and_small() -> None:
    text = rules_html()
    assert "default-src 'none'; style-src 'sha256-" in text.replace("&#39;", "'")
    assert "<script" not in text
    assert "url(" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert len(text.encode()) < 2**20


class Words(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("code", CODES)
def test_a_section_holds_the_whole_documentation(code: str) -> None:
    section = rules_html().partition(f'<section id="{code.lower()}">')[2].partition("</section>")[0]
    words = " ".join(Words(section).words.replace("`", "").split())
    documentation = all_rules()[code].documentation
    for text in (documentation.checks, *documentation.sections, *documentation.sections.values()):
        for line in text.splitlines():
            assert " ".join(line.replace("`", "").split()) in words
    for heading in ("Example", "Instead"):
        if heading in documentation.sections:
            assert documentation.sections[heading] in Words(section).words


def test_code_is_set_as_code_and_everything_is_escaped() -> None:
    assert "<code>" in rules_html()
    assert "`" not in re.sub(r"<pre.*?</pre>", "", rules_html(), flags=re.DOTALL)


def test_a_page_that_cannot_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "rules.html").write_text("old")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_rules(tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["rules.html"]
    assert (tmp_path / "rules.html").read_text() == "old"
