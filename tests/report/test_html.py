from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_exportready.report.html import page, write_html
from pytest_exportready.report.run import Run

if TYPE_CHECKING:
    from conftest import Browser


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


def test_cells_carry_words_not_only_colours(run: Run) -> None:
    words = " ".join(Outline(page(run)).words.split())
    assert "vit train ✓ passed inspect ✗ failed export – skipped parity – skipped" in words  # noqa: RUF001


def test_everything_about_a_case_is_there(run: Run) -> None:
    words = " ".join(Outline(page(run)).words.split())
    for told in (
        "ER302 batchnorm_frozen error at inspect net.bn1 is in training mode Fix model.eval()",
        "largest 1.5e-07 sizes 1, 2",
        "pytest --export-ready tests/test_export.py::test_vit",
        "An earlier attempt failed: rank 1 lost",
        "skipped: needs 2 GPUs",
        "failed as expected: known",
        "Captured output",
    ):
        assert told in words


def test_hostile_text_makes_no_element_and_no_handler(run: Run, hostile_run: Run) -> None:
    harmless, hostile = Outline(page(run)), Outline(page(hostile_run))
    assert set(hostile.tags) <= set(harmless.tags) | {"h2"}
    assert not {"script", "img", "svg", "iframe", "object"} & set(hostile.tags)
    assert not [name for name, _ in hostile.attributes if name.startswith("on") or name == "style"]
    links = [value for name, value in hostile.attributes if name in ("href", "src", "action")]
    assert links
    assert all(re.fullmatch(r"#case-[0-9a-f]{12}", link) for link in links)
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
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text


def test_many_green_cases_have_a_row_only(run: Run) -> None:
    green = run.results[0]
    many = Run((run.results[1], *(replace(green, nodeid=f"t.py::{i}", name=f"{i}") for i in range(3_000))))
    text = page(many)
    assert text.count('<details class="case') == 1
    assert "have a row only" in text
    assert len(text) < 1_000 * len(many.results)


def test_an_empty_run_has_a_page() -> None:
    assert "Can&#39;t tell:</strong> no case ran" in page(Run(()))


# -- in a browser


def test_a_click_shows_the_findings_of_a_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    write_html(run, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    seen = "document.querySelector('details.failed .finding').checkVisibility()"
    assert browser.evaluate("document.querySelector('h1').innerText") == run.verdict
    assert not browser.evaluate(seen)
    browser.click("details.failed summary .c.failed")
    assert browser.evaluate(seen)
    text = browser.evaluate("document.querySelector('details.failed .finding').innerText")
    assert "batchnorm_frozen" in text
    assert "model.eval()" in text
    browser.click("details.failed summary .label")
    assert not browser.evaluate(seen)


def test_the_keyboard_opens_a_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    write_html(run, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    browser.press("Tab", 9)
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.tagName") == "SUMMARY"
    browser.press("Enter", 13)
    assert browser.evaluate("document.activeElement.parentElement.open")


def test_a_link_opens_its_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    write_html(run, tmp_path / "report.html")
    anchor = run.results[1].anchor
    browser.open(f"{(tmp_path / 'report.html').as_uri()}#{anchor}")
    assert browser.evaluate(f"document.getElementById('{anchor}').checkVisibility()")


def test_the_filter_leaves_what_needs_attention(browser: Browser, run: Run, tmp_path: Path) -> None:
    write_html(run, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    shown = "[...document.querySelectorAll('.case')].filter(e => e.checkVisibility()).length"
    assert browser.evaluate(shown) == 8
    browser.click("#only")
    assert browser.evaluate(shown) == 6


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_hostile_text_is_inert_and_fits(
    browser: Browser, hostile_run: Run, tmp_path: Path, width: int, scheme: str
) -> None:
    write_html(hostile_run, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri(), width=width, scheme=scheme)
    browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.evaluate("document.querySelectorAll('details.case').length") == len(hostile_run.results)
    assert browser.evaluate("window.ran") is None
    assert browser.evaluate("document.querySelectorAll('script, img, svg').length") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.called("Runtime.exceptionThrown") == []
    assert browser.called("Log.entryAdded") == []
    requests = [params["request"]["url"] for params in browser.called("Network.requestWillBeSent")]
    assert all(url.startswith("file:") for url in requests)
    dark = _brightness(browser.screenshot()) < 128
    assert dark == (scheme == "dark")


def _brightness(png: bytes) -> float:
    """Red of the first pixel, 0 to 255; fails for a picture that is blank."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data, size = 8, b"", (0, 0)
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        size = struct.unpack(">II", body[:8]) if kind == b"IHDR" else size
        data += body if kind == b"IDAT" else b""
        at += length + 12
    raw = zlib.decompress(data)
    assert len(set(raw)) > 16, "the screenshot is blank"
    return raw[1]
