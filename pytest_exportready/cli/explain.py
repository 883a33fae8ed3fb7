"""``exportready explain ER302``: what a code stands for."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from textwrap import fill, shorten

from pytest_exportready.case.sanitize import plain
from pytest_exportready.cli import Command
from pytest_exportready.rules import all_rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", help="a code or a name, such as ER302; all are listed without")


def run(arguments: argparse.Namespace) -> int:
    rules = all_rules()
    if arguments.code is None:
        for code, rule in rules.items():
            summary = shorten(rule.doc.split("\n\n")[0], 100, placeholder=" ...")
            print(f"{code}  {rule.name:<28}  {summary}")
        return 0
    wanted = str(arguments.code).strip()
    names = {rule.name: code for code, rule in rules.items()}
    code = names.get(wanted.lower(), wanted.upper())
    if code not in rules:
        close = get_close_matches(code, rules, 3) or get_close_matches(wanted.lower(), names, 3)
        codes = [names.get(match, match) for match in close]
        told = ", ".join(f"{match} ({rules[match].name})" for match in codes)
        hint = f"Did you mean {told}?" if told else "`exportready explain` lists them all."
        print(f"exportready explain: no such code: {plain(wanted, 80)}. {hint}", file=sys.stderr)
        return 2
    print(f"{code} {rules[code].name}\n\n{_wrapped(rules[code].doc)}")
    return 0


def _wrapped(text: str) -> str:
    """Paragraphs filled anew; lists, examples and indented lines as they are."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        listed = any(line.startswith((" ", "-", "*", "|", "Bad:", "Good:")) for line in paragraph.splitlines())
        paragraphs.append(paragraph if listed else fill(paragraph, 110))
    return "\n\n".join(paragraphs)


COMMAND = Command("say what a code of a finding stands for", add_arguments, run)
