"""``exportready explain ER302``: what a code stands for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from textwrap import fill, shorten

from pytest_exportready.case.finding import Rule
from pytest_exportready.case.sanitize import plain
from pytest_exportready.cli import Command

LONE_RULES = (
    "judge.cached_stages",
    "diagnosis._diagnosis",
    "analysis.ranks.rules",
    "session.export_hooks",
    "session.ranks",
    "session.verdict",
    "stages._source_lines",
)
"""Modules that are neither check, stage nor diagnosis, and have rules of their own."""


def documented() -> dict[str, tuple[str, str]]:
    """Name and documentation of every code, sorted. Loads the checks and stages, and with them torch."""
    rules = {rule.code: (rule.name, cleandoc(text)) for rule, text in _rules()}
    return dict(sorted(rules.items()))


def _rules() -> Iterator[tuple[Rule, str]]:
    from pytest_exportready.checks import all_checks
    from pytest_exportready.checks._check import documentation
    from pytest_exportready.diagnosis import all_diagnoses
    from pytest_exportready.stages import all_stages

    for module in LONE_RULES:
        for value in vars(import_module(f"pytest_exportready.{module}")).values():
            if isinstance(value, Rule):
                yield value, value.doc
    for diagnosis in all_diagnoses().values():
        yield diagnosis.rule, diagnosis.rule.doc
    for stage in all_stages().values():
        for rule in stage.rules:
            yield rule, rule.doc
    for check in all_checks().values():
        yield check.rule, documentation(check)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", help="a code or a name, such as ER302; all are listed without")


def run(arguments: argparse.Namespace) -> int:
    rules = documented()
    if arguments.code is None:
        for code, (name, text) in rules.items():
            summary = shorten(text.strip().split("\n\n")[0], 100, placeholder=" ...")
            print(f"{code}  {name:<28}  {summary}")
        return 0
    wanted = str(arguments.code).strip()
    names: dict[str, str] = {name: code for code, (name, _) in rules.items()}
    code = names.get(wanted.lower(), wanted.upper())
    if code not in rules:
        close = get_close_matches(code, rules, 3) or get_close_matches(wanted.lower(), names, 3)
        codes = [names.get(match, match) for match in close]
        told = ", ".join(f"{match} ({rules[match][0]})" for match in codes)
        hint = f"Did you mean {told}?" if told else "`exportready explain` lists them all."
        print(f"exportready explain: no such code: {plain(wanted, 80)}. {hint}", file=sys.stderr)
        return 2
    name, text = rules[code]
    print(f"{code} {name}\n\n{_wrapped(text.strip()) or 'No documentation.'}")
    return 0


def _wrapped(text: str) -> str:
    """Paragraphs filled anew; lists, examples and indented lines as they are."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        listed = any(line.startswith((" ", "-", "*", "|", "Bad:", "Good:")) for line in paragraph.splitlines())
        paragraphs.append(paragraph if listed else fill(paragraph, 110))
    return "\n\n".join(paragraphs)


COMMAND = Command("say what a code of a finding stands for", add_arguments, run)
