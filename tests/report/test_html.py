from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.html import page, write_html
from pytest_exportready.report.run import Run, TestResult

if TYPE_CHECKING:
    pass


class Outline(HTMLParser):
    """What a browser would see: elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_verdict_comes_first_then_the_environment(run: Run) -> None:
    words = " ".join(Outline(page(run).partition("<body>")[2]).words.split())
    assert words.startswith(f"{run.verdict} torch 2.13.0 python 3.11 on runner-7 2026-11-29 14:03 +0000 took 12.5 s")


def test_cells_carry_words_not_only_colors(run: Run) -> None:
    words = " ".join(Outline(page(run)).words.split())
    assert "vit failed: inspect passed: train skipped: export parity" in words


def test_everything_about_a_case_is_there(run: Run) -> None:
    words = " ".join(Outline(page(run)).words.split())
    for expected in (
        "ER302 batchnorm_frozen error at inspect net.bn1 is in training mode Fix model.eval()",
        "largest 1.5e-07 sizes 1, 2",
        "pytest --export-ready tests/test_export.py::test_vit",
        "An earlier attempt failed: rank 1 lost",
        "skipped: needs 2 GPUs",
        "failed as expected: known",
        "Captured output",
    ):
        assert expected in words


def test_hostile_text_makes_no_element_and_no_handler(run: Run, hostile_run: Run) -> None:
    harmless, hostile = Outline(page(run)), Outline(page(hostile_run))
    assert set(hostile.tags) <= set(harmless.tags) | {"h3", "em"}
    assert hostile.tags.count("script") == harmless.tags.count("script") == 2
    assert not {"img", "iframe", "object"} & set(hostile.tags)
    assert not [name for name, _ in hostile.attributes if name.startswith("on") or name == "style"]
    links = [value for name, value in hostile.attributes if name in ("href", "src", "action")]
    assert links
    assert all(re.fullmatch(r"#(case-[0-9a-f]{12}|state=\w+|cases|timing|stages|accuracy)", link) for link in links)
    assert "{{ 7 * 7 }}" in hostile.words


def test_the_file_is_whole_and_utf8(hostile_run: Run, tmp_path: Path) -> None:
    write_html(hostile_run, tmp_path / "new" / "report.html")
    text = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", text)


def test_nothing_of_another_machine_is_asked_for(run: Run) -> None:
    text = page(run)
    policies = [value for name, value in Outline(text).attributes if name == "content"]
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policies[0]
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text


def test_many_green_cases_are_data_and_plain_lines(run: Run) -> None:
    green = run.results[0]
    many = Run((run.results[1], *(replace(green, nodeid=f"t.py::test_a[{i}]", name=f"{i}") for i in range(3_000))))
    text = page(many)
    assert text.count('<details class="case') == 1
    assert "test_a[0, 1, 2, 3" in text
    assert len(text) < 60 * len(many.results)


def test_whatever_fails_the_page_stays_below_a_mebibyte() -> None:
    random = Random(7)

    def failed(number: int) -> TestResult:
        noise = "".join(random.choices("<>&'abcdefgh ", k=4_000))
        name = f"test_{number}{noise[:700]}"
        finding = Finding("ER302", noise[:100], "error", noise[:300], noise[300:700], noise[700:1000], stage="export")
        record = Readiness(name, "plain", (StageResult("export", "failed"),), (finding,))
        return TestResult(f"t.py::{name}", "t", name, "t.py", 1, 1.0, "failed", noise[:400], noise, noise, record)

    text = page(Run(tuple(failed(number) for number in range(600))))
    assert len(text.encode()) < 2**20
    assert text.rstrip().endswith("</html>")


def test_causes_come_before_cases_what_failed_first(run: Run) -> None:
    lost = tuple(replace(run.results[2], nodeid=f"t.py::lost_{number}") for number in range(3))
    words = " ".join(Outline(page(Run((*lost, *run.results)))).words.split())
    causes = words[words.index(" causes ") - 1 : words.index("needs attention")]
    assert "ER302 batchnorm_frozen at inspect 1 case is in training mode Fix model.eval() vit" in causes
    assert causes.index("ER302") < causes.index("inconclusive")


def test_scenarios_of_a_model_stand_together(run: Run) -> None:
    def of(case: str, scenario: str, failing: str = "") -> TestResult:
        nodeid = f"t.py::test_{case}[{scenario}]"
        record = replace(run.results[0].readiness, case=nodeid, scenario=scenario)
        return TestResult(nodeid, "t", nodeid, outcome="failed" if failing else "passed", readiness=record)

    text = page(Run((of("a", "plain"), of("b", "plain"), of("a", "ddp"), of("b", "ddp", "export"))))
    order = re.findall(r"<b>(\w)</b>(?: <em>(\w+)</em>)?", text[text.index('id="list"') :])
    assert order == [("b", ""), ("b", "ddp"), ("a", ""), ("a", "ddp")]


def test_an_empty_run_has_a_page() -> None:
    assert "Inconclusive:</strong> no case ran" in page(Run(()))


def test_a_cause_shows_its_best_fix_once_whichever_scenario_found_it() -> None:
    """The same rule, place and problem is one cause; a patch is better than advice, and keeps its lines."""
    patch = "--- net.py\n+++ net.py\n@@ -1 +1 @@\n-    <a>\n+    b"
    advice = Finding("ER401", "branch", "error", "net", "branches", "use where", "net.py", 7, torch_says="E: u0 > 0")
    proved = replace(advice, fix="apply the patch", patch=patch)
    results = tuple(
        TestResult(
            f"t.py::a[{scenario}]",
            "t",
            f"a[{scenario}]",
            outcome="failed",
            readiness=Readiness("a", scenario, (StageResult("export", "failed"),), (finding.at("export"),)),
        )
        for scenario, finding in (("ddp", advice), ("plain", proved), ("fsdp2", advice))
    )
    text = page(Run(results))
    causes = text[text.index('<ol class="causes">') : text.index("</ol>")]
    assert causes.count("3 cases") == 1
    assert "apply the patch" in causes
    assert "use where" not in causes
    assert "--- net.py\n+++ net.py\n@@ -1 +1 @@\n-    &lt;a&gt;\n+    b</pre>" in causes
    assert '<p class="torch">torch: E: u0 &gt; 0</p>' in causes


def test_a_reproducer_or_why_there_is_none() -> None:
    """They are two fields: a file may begin with any comment."""

    def shown(**fields: str) -> str:
        record = replace(Readiness("a", "plain", (StageResult("export", "failed"),), ()), **fields)
        result = TestResult("t.py::a", "t", "a", outcome="failed", readiness=record)
        return Outline(page(Run((result,)))).words

    assert "# none: of mine\nimport torch" in shown(reproducer="# none: of mine\nimport torch")
    assert "No reproducer: a lambda has no source" in shown(no_reproducer="a lambda has no source")
    assert "eproducer" not in shown()
