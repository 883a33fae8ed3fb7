"""One Markdown page with the documentation of all rules."""

from __future__ import annotations

from pytest_exportready.case.rules import CODE_HEADINGS, KnownRule, all_rules

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


def grouped_rules() -> dict[str, list[KnownRule]]:
    """Return every rule, by the title of its group."""
    rules = all_rules().values()
    return {title: [rule for rule in rules if rule.code.startswith(group)] for group, title in _GROUPS.items()}


def rules_page() -> str:
    """Return a page with a table of contents and a section for each rule, with the code as its anchor."""
    lines = ["# Rules", "", "Written by `exportready explain --markdown`.", ""]
    for title, members in grouped_rules().items():
        lines += [f"**{title}**", "", "| | |", "|---|---|"]
        lines += [f"| [{r.code}](#{r.code.lower()}) `{r.name}` | {_cell(r.documentation.checks)} |" for r in members]
        lines.append("")
    for rule in all_rules().values():
        lines += [f"## {rule.code}", "", f"`{rule.name}`: {rule.documentation.checks}", ""]
        for heading, text in rule.documentation.sections.items():
            body = ["```python", text, "```"] if heading in CODE_HEADINGS else [_paragraphs(heading, text)]
            lines += [f"**{heading}**", "", *body, ""]
    return "\n".join(lines)


def _paragraphs(heading: str, text: str) -> str:
    return "\n".join(f"- {line}" for line in text.splitlines()) if heading == "Severity" else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
