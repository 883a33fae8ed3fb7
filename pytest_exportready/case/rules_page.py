"""One Markdown page with the documentation of all rules."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_exportready.case.rules import KnownRule

_GROUPS = {
    "ER1": "The case and the trained module",
    "ER2": "Devices and dtypes",
    "ER3": "State that training leaves behind",
    "ER4": "Failed exports",
    "ER5": "Outputs and gradients",
    "ER6": "Sizes, devices and lowering",
    "ER7": "Saving and loading",
    "ER8": "Ranks",
}
_CODE = ("Example", "Instead")


def rules_page(rules: Iterable[KnownRule]) -> str:
    """Return a page with a table of contents and a section for each rule, with the code as its anchor."""
    rules = list(rules)
    lines = ["# Rules", "", "Written by `exportready explain --markdown`.", ""]
    for group, title in _GROUPS.items():
        members = [rule for rule in rules if rule.code.startswith(group)]
        lines += [f"**{title}**", "", "| | |", "|---|---|"]
        lines += [f"| [{r.code}](#{r.code.lower()}) `{r.name}` | {_cell(r.documentation.checks)} |" for r in members]
        lines.append("")
    for rule in rules:
        lines += [f"## {rule.code}", "", f"`{rule.name}`: {rule.documentation.checks}", ""]
        for heading, text in rule.documentation.sections.items():
            body = ["```python", *text.splitlines(), "```"] if heading in _CODE else _paragraphs(heading, text)
            lines += [f"**{heading}**", "", *body, ""]
    return "\n".join(lines)


def _paragraphs(heading: str, text: str) -> list[str]:
    return [f"- {line}" for line in text.splitlines()] if heading == "Severity" else text.splitlines()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
