"""Every rule that a finding can name, read from the source files of this package without importing any of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent

_TO_THE_LAST_RULE = re.compile(r".* = Rule\(.*?\n(?=[^\s)]|\Z)", re.DOTALL)
"""The part of a file that is parsed, with all that stands above: to parse the rest would take most of the time."""


HEADINGS = ("Why it matters", "Example", "Instead", "Severity", "Not reported")
"""The sections of a rule's documentation, in order, behind the paragraph that says what the rule checks."""

CODE_HEADINGS = ("Example", "Instead")
"""The sections that are Python code; the others are prose."""

_HEADING = re.compile(rf"^({'|'.join(HEADINGS)}):\n", re.MULTILINE)


@dataclass(frozen=True)
class Documentation:
    """The documentation of a rule, taken to pieces."""

    checks: str  # what the rule checks
    sections: dict[str, str]  # text by heading, not indented

    @classmethod
    def of(cls, text: str) -> Documentation:
        """Parse a docstring whose sections are indented below ``Heading:``."""
        checks, *parts = _HEADING.split(text)
        sections = {heading: dedent(body).strip() for heading, body in zip(parts[::2], parts[1::2], strict=True)}
        return cls(" ".join(checks.split()), sections)


@dataclass(frozen=True)
class KnownRule:
    """A rule as its module declares it: ``RULE = Rule("ER302", "batchnorm_frozen")``."""

    code: str
    name: str
    doc: str  # the third argument where it is a string, otherwise the docstring of the module
    file: Path

    @property
    def documentation(self) -> Documentation:
        return Documentation.of(self.doc)


@cache
def all_rules() -> dict[str, KnownRule]:
    """Return every rule by code, sorted."""
    rules = [rule for file in Path(__file__).parents[1].rglob("*.py") for rule in _declared_in(file)]
    return {rule.code: rule for rule in sorted(rules, key=lambda rule: rule.code)}


def _declared_in(file: Path) -> Iterator[KnownRule]:
    source = file.read_text(encoding="utf-8")
    if " = Rule(" not in source or (found := _TO_THE_LAST_RULE.match(source)) is None:
        return
    module = ast.parse(found[0], str(file))
    for statement in module.body:
        match statement:
            case ast.Assign(
                value=ast.Call(func=ast.Name(id="Rule"), args=[ast.Constant(str(code)), ast.Constant(str(name)), *rest])
            ):
                text = rest[0].value if rest and isinstance(rest[0], ast.Constant) else ast.get_docstring(module)
                yield KnownRule(code, name, cleandoc(str(text)), file)
