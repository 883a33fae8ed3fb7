from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_exportready.report.html import write_html
from pytest_exportready.report.run import Run

if TYPE_CHECKING:
    from browser import Browser

READY = "document.documentElement.classList.contains('js')"
SHOWN = "[...document.querySelectorAll('.case')].filter(e => e.checkVisibility()).length"


def opened(browser: Browser, run: Run, folder: Path, address: str = "", **how: Any) -> None:
    write_html(run, folder / "report.html")
    browser.open("about:blank")
    browser.open(f"{(folder / 'report.html').as_uri()}{address}", **how)
    browser.until(READY)


def test_a_click_shows_the_findings_of_a_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    opened(browser, run, tmp_path)
    seen = "document.querySelector('details.failed .finding').checkVisibility()"
    assert browser.evaluate("document.querySelector('h1').innerText") == run.verdict
    assert not browser.evaluate(seen)
    browser.click("details.failed summary .cells .f")
    assert browser.evaluate(seen)
    text = browser.evaluate("document.querySelector('details.failed .finding').innerText")
    assert "batchnorm_frozen" in text
    assert "model.eval()" in text
    browser.click("details.failed summary .label")
    assert not browser.evaluate(seen)


def test_the_keyboard_opens_a_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    opened(browser, run, tmp_path)
    browser.evaluate("document.getElementById('search').focus()")
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.matches('summary.row')")
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter", 13)
    assert browser.evaluate("document.activeElement.parentElement.open")


def test_a_slash_goes_to_the_search_and_the_address_keeps_it(browser: Browser, run: Run, tmp_path: Path) -> None:
    opened(browser, run, tmp_path)
    browser.press("/", 191)
    assert browser.evaluate("document.activeElement.id") == "search"
    for letter in "vit":
        browser.press(letter, ord(letter.upper()))
    assert browser.evaluate(SHOWN) == 1
    assert browser.evaluate("location.hash") == "#q=vit"
    assert browser.evaluate("document.querySelector('.found').innerText") == "1 of 8 cases"
    opened(browser, run, tmp_path, "#q=vit&state=passed")
    assert browser.evaluate(SHOWN) == 0
    assert browser.evaluate("document.getElementById('search').value") == "vit"


def test_a_link_opens_its_case(browser: Browser, run: Run, tmp_path: Path) -> None:
    anchor = run.results[1].anchor
    opened(browser, run, tmp_path, f"#{anchor}")
    assert browser.evaluate(f"document.getElementById('{anchor}').checkVisibility()")


def test_a_link_finds_a_case_among_many(browser: Browser, run: Run, tmp_path: Path) -> None:
    green = run.results[0]
    many = Run((run.results[1], *(replace(green, nodeid=f"t.py::test_a[{i}]", name=f"{i}") for i in range(1_200))))
    opened(browser, many, tmp_path, f"#{many.results[700].anchor}")
    assert browser.evaluate(SHOWN) == 1
    assert browser.evaluate("document.querySelector('.case .row').title") == "t.py::test_a[699]"
    browser.evaluate("location.hash = '#state=all'")
    browser.until("document.querySelectorAll('.case').length == 300")
    browser.click("#more")
    assert browser.evaluate("document.querySelectorAll('.case').length") == 600
    assert browser.evaluate("document.querySelectorAll('.case .cells .p').length") > 4 * 500


def test_details_that_are_packed_are_there_when_they_are_asked_for(
    browser: Browser, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_exportready.report.page_rows.ROWS_HTML", 400_000)
    opened(browser, run, tmp_path)
    assert browser.evaluate("document.querySelectorAll('.finding').length") == 0
    browser.click("details.failed summary")
    browser.until("document.querySelectorAll('details.failed .finding').length == 2")
    assert browser.evaluate(f"document.querySelectorAll('#{run.results[1].anchor}').length") == 1


def test_the_filter_leaves_what_needs_attention(browser: Browser, run: Run, tmp_path: Path) -> None:
    opened(browser, run, tmp_path)
    assert browser.evaluate(SHOWN) == 8
    browser.click("a[href='#state=attention']")
    browser.until(f"{SHOWN} == 6")
    assert browser.evaluate("location.hash") == "#state=attention"


def test_a_tab_shows_its_table_only(browser: Browser, run: Run, tmp_path: Path) -> None:
    opened(browser, run, tmp_path, "#timing")
    visible = "[...document.querySelectorAll('.panel')].filter(e => e.checkVisibility()).map(e => e.id).join()"
    assert browser.evaluate(visible) == "timing"
    browser.click("#timing .figures a")
    browser.until(f"{visible} == 'cases'")


def test_without_javascript_everything_is_there(browser: Browser, run: Run, tmp_path: Path) -> None:
    green = run.results[0]
    many = Run((*run.results, *(replace(green, nodeid=f"t.py::test_a[{i}]", name=f"{i}") for i in range(500))))
    write_html(many, tmp_path / "report.html")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.evaluate("document.querySelector('h1').innerText") == many.verdict
    browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    text = browser.evaluate("document.body.innerText")
    for expected in ("batchnorm_frozen", "model.eval()", "test_a[0, 1, 2,", "whole case", "pytest --export-ready"):
        assert expected in text
    assert not browser.evaluate("document.getElementById('search').checkVisibility()")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_hostile_text_is_inert_and_fits(
    browser: Browser, hostile_run: Run, tmp_path: Path, width: int, scheme: str
) -> None:
    opened(browser, hostile_run, tmp_path, width=width, scheme=scheme)
    browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.evaluate("document.querySelectorAll('details.case').length") == len(hostile_run.results)
    assert browser.evaluate("window.ran") is None
    assert browser.evaluate("document.querySelectorAll('img, iframe, main script, main svg script').length") == 0
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
