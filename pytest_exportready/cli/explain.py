"""``exportready explain ER302``: print the documentation of a rule."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from textwrap import fill, indent, shorten

from pytest_exportready.case.rules import CODE_HEADINGS, KnownRule, all_rules
from pytest_exportready.case.rules_page import rules_page
from pytest_exportready.case.sanitize import plain
from pytest_exportready.cli import Command

_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", help="a rule code or name, such as ER302. Lists all rules if omitted")
    parser.add_argument("--markdown", action="store_true", help="print one page with the documentation of all rules")


def run(arguments: argparse.Namespace) -> int:
    rules = all_rules()
    if arguments.markdown:
        print(rules_page(), end="")
        return 0
    if arguments.code is None:
        for rule in rules.values():
            print(f"{rule.code}  {rule.name:<30}  {shorten(rule.documentation.checks, _WIDTH, placeholder=' ...')}")
        return 0
    found = _found(str(arguments.code).strip(), rules)
    if found is None:
        return 2
    print(_page(found))
    return 0


def _found(wanted: str, rules: dict[str, KnownRule]) -> KnownRule | None:
    """Return the rule with this code or name; print the closest ones if there is none."""
    by_name = {rule.name: rule for rule in rules.values()}
    rule = by_name.get(wanted.lower()) or rules.get(wanted.upper())
    if rule is None:
        close = [rules[code] for code in get_close_matches(wanted.upper(), rules, 3)]
        close = close or [by_name[name] for name in get_close_matches(wanted.lower(), by_name, 3)]
        names = ", ".join(f"{match.code} ({match.name})" for match in close)
        hint = f"Did you mean {names}?" if names else "`exportready explain` lists all rules."
        print(f"exportready explain: unknown rule {plain(wanted, 80)}. {hint}", file=sys.stderr)
    return rule


def _page(rule: KnownRule) -> str:
    documentation = rule.documentation
    parts = [f"{rule.code} {rule.name}", f"What it checks\n{_filled(documentation.checks)}"]
    for heading, text in documentation.sections.items():
        body = indent(text, "    ") if heading in CODE_HEADINGS else "\n".join(map(_filled, text.splitlines()))
        parts.append(f"{heading}\n{body}")
    return "\n\n".join(parts)


def _filled(line: str) -> str:
    return fill(line, _WIDTH, initial_indent="    ", subsequent_indent="    ")


COMMAND = Command("print the documentation of a rule", add_arguments, run)
