"""Finding: one form for everything that is reported, safe to show and to store."""

from __future__ import annotations

import json

import pytest

from pytest_exportready.case.finding import MESSAGE_LIMIT, PATCH_LIMIT, Finding, Rule

RULE = Rule("ER302", "batchnorm_frozen", "doc")
PATCH = "--- m.py\n+++ m.py\n@@ -1 +1 @@\n-a\n+b"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ({}, "the model"),
        ({"where": "bn1"}, "bn1"),
        ({"where": "bn1", "file": "m.py", "line": 3}, "bn1, m.py:3"),
        ({"file": "m.py"}, "m.py"),
        ({"where": "bn1", "rank": 0}, "rank 0, bn1"),
    ],
)
def test_place(place: dict[str, object], shown: str) -> None:
    """Rank, qualified name, source line: what is known of them."""
    given = {"where": "", **place}
    finding = RULE.error(message="left in training", fix="model.eval()", **given)  # type: ignore[arg-type]
    assert str(finding) == f"{shown}: [ER302 batchnorm_frozen] left in training. Fix: model.eval()"


def test_only_errors_that_are_not_ignored_block() -> None:
    """Warnings, notes and what the marker ignores do not block."""
    error = RULE.error("", "m", "f")
    assert error.blocks
    assert not error.ignored_because("known").blocks
    assert not RULE.warning("", "m", "f").blocks
    assert not RULE.note("", "m").blocks
    assert error.at("export").stage == "export"


def test_text_is_made_safe() -> None:
    """No terminal escapes, nothing that XML cannot hold, no endless message."""
    finding = RULE.error("a\x1b[31m", "x\x00" * 10_000, "f\ud800", file="m\x07.py")
    assert finding.where == "a"
    assert len(finding.message) == MESSAGE_LIMIT
    assert not set(finding.message + finding.fix + finding.file) & set("\x00\x1b\x07\ud800")


def test_round_trip() -> None:
    """Through JSON and back, equal."""
    finding = (
        RULE.error("bn1", "m", "f", file="m.py", line=3, rank=2, patch=PATCH, torch_says="E: 1")
        .at("inspect")
        .ignored_because("known")
    )
    assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding


def test_what_torch_says_and_the_patch_are_on_lines_of_their_own() -> None:
    """The summary is one line, for tables; the text has all there is."""
    finding = RULE.error("bn1", "it branches", "apply the patch", patch=PATCH, torch_says="Error: u0 > 0")
    assert finding.summary == "bn1: [ER302 batchnorm_frozen] it branches. Fix: apply the patch"
    assert str(finding).splitlines() == [finding.summary, " torch: Error: u0 > 0", *PATCH.splitlines()]
    assert finding.one_line == f"{finding.summary} torch: Error: u0 > 0"
    assert finding.problem == "it branches (torch says: Error: u0 > 0)"


def test_half_a_patch_is_none() -> None:
    """What is cut would apply nowhere, or wrongly."""
    assert not RULE.error("", "m", "f", patch=PATCH + "\n+b" * PATCH_LIMIT).patch


def test_a_finding_of_an_earlier_version_has_neither() -> None:
    data = RULE.error("bn1", "m", "f").to_dict()
    del data["patch"], data["torch_says"]
    assert Finding.from_dict(data) == RULE.error("bn1", "m", "f")
