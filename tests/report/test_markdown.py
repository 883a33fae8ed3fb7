"""Hostile text stays text on GitHub."""

from __future__ import annotations

import re

import pytest

from pytest_exportready.report.markdown import code, fenced, fitted

HOSTILE = [
    "@everyone",
    "a`b``c",
    "`",
    "``` \n# x",
    "a | b",
    "<img src=x>",
    "[x](javascript:1)",
    "\x1b[31mred",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_holds_whatever_is_in_it(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)[0]  # type: ignore[index]
    inside = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in inside
    assert "|" not in span
    assert "\n" not in span
    span.encode()


def test_nothing_is_no_span() -> None:
    assert code("") == code(" \n ") == ""


@pytest.mark.parametrize("text", [*HOSTILE, "a\n```\nb\n````\n"])
def test_a_block_ends_where_it_should(text: str) -> None:
    first, *_, last = fenced(text).splitlines()
    assert first == last
    assert first not in text.splitlines()


def test_what_does_not_fit_is_left_out_whole_and_said() -> None:
    parts = ["verdict", "\N{SNOWMAN}" * 100, "c" * 100]
    assert fitted(parts, 10_000, "more") == "\n\n".join(parts) + "\n"
    assert fitted(parts, 330, "more") == f"verdict\n\n{parts[1]}\n\nmore\n"
    assert fitted(parts, 100, "more") == "verdict\n\nmore\n"
