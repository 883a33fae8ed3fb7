from __future__ import annotations

from pathlib import Path

from pytest_exportready.case.rules import all_rules
from pytest_exportready.case.rules_page import grouped_rules, rules_page

PAGE = Path(__file__).parents[2] / ".github" / "rules.md"


def test_the_page_in_the_repository_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == rules_page(), (
        "Documentation of rules has changed. Fix: exportready explain --markdown > .github/rules.md"
    )


def test_every_rule_belongs_to_one_group() -> None:
    assert [rule for members in grouped_rules().values() for rule in members] == list(all_rules().values())


def test_every_entry_of_the_contents_leads_to_a_section() -> None:
    page = rules_page()
    for code in all_rules():
        assert f"[{code}](#{code.lower()})" in page
        assert f"\n## {code}\n" in page
