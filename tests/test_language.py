"""The language of the project: plain technical English, in standard terms, in one form.

Every string, docstring and name of the sources is read, and every text that a user meets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pytest_exportready.case.rules import HEADINGS, all_rules

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    file for folder in ("pytest_exportready", "fixtures", "reference_models") for file in (ROOT / folder).rglob("*.py")
)
TEXTS = sorted(
    file
    for pattern in ("*.md", "pytest_exportready/**/*.html", ".github/**/*.yml", ".github/**/*.md")
    for file in ROOT.glob(pattern)
)

_AMERICAN = "American spelling"
_VERB = "negate the verb"
BANNED = {  # pattern: the standard terms
    r"told|tells?|telling": "report, print, say, distinguish",
    r"(held|holds?|holding) (\w+ )?against": "compare",
    r"mend(s|ed|ing)?": "fix",
    r"besides": "also, in addition",
    r"anew": "again",
    r"at the (most|least|latest)": "at most, at least",
    r"alike|unlike": "same, equal, different",
    r"apart": "different, separate, except",
    r"answer(s|ed|ing)?": "output, return, result",
    r"shaken?|spell(s|ed)?|unspellable": "perturb, write",
    r"(?<!there )(is|are|was|were) no (?!longer|more|less|further|larger|smaller|worse|better)": _VERB,
    r"(has|have|had) not (?!been|yet|already|\w+ed\b|\w+en\b|come|run|set|met|put|read|left|made|found|sent)": _VERB,
    r"(cannot|can|to) be had": "fails, is available",
    r"none of (ours|theirs|the user's)": "of the user",
    r"of (the user|torch|pytest)'s(?= (and|or|is|are|among)\b|\W*$)": "of the user, of torch",
    r"goes? (another|no other|the same|one) way": "take a branch",
    r"for want of": "without",
    r"(normal|initial|optim|synchron|serial|quant|special|general|organ|recogn|minim)is(e[sdr]?|ing|ation)": _AMERICAN,
    r"(maxim|vector|parametr|material|summar|author|util|categor)is(e[sdr]?|ing|ation)": _AMERICAN,
    r"(behavi|col|neighb|fav|hon)ours?|analy(se[sd]?|sing)|catalogues?|judgement|grey": _AMERICAN,
    r"(cancel|label|model|travel|signal|marshal)l(ed|ing)": _AMERICAN,
}
_BANNED = {re.compile(rf"\b({pattern})\b", re.IGNORECASE): term for pattern, term in BANNED.items()}
BANNED_NAMES = frozenset(
    [
        "told",
        "tell",
        "tells",
        "mend",
        "mended",
        "mends",
        "anew",
        "apart",
        "alike",
        "unlike",
        "besides",
        "shaken",
        "unspellable",
    ]
)
MESSAGE_LIMIT = 120  # characters; a placeholder counts as ten


def words(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each string and docstring of a Python file with its line; the parts of an f-string as one text."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, written(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def written(node: ast.expr) -> str:
    """Return a string expression as text, with ten characters for each placeholder."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(written(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return written(node.left) + written(node.right)
    return "x" * 10


def names(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each name that a Python file defines."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def violations(text: str) -> list[str]:
    return [f"{found[0]!r} (say: {term})" for pattern, term in _BANNED.items() if (found := pattern.search(text))]


def shown(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", SOURCES, ids=shown)
def test_strings_and_docstrings(file: Path) -> None:
    found = [f"{shown(file)}:{line}: {', '.join(bad)}" for line, text in words(file) if (bad := violations(text))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("file", SOURCES, ids=shown)
def test_names(file: Path) -> None:
    found = [f"{shown(file)}:{line}: {name}" for line, name in names(file) if BANNED_NAMES & set(parts(name))]
    assert not found, "\n".join(found)


def parts(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")


@pytest.mark.parametrize("file", TEXTS, ids=shown)
def test_what_people_read(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [f"{shown(file)}:{n}: {', '.join(bad)}" for n, line in enumerate(lines, 1) if (bad := violations(line))]
    assert not found, "\n".join(found)


@cache
def reports() -> list[tuple[str, str, str]]:
    """Return place, message and fix of every finding that is written down in one call, ``RULE.error(where, ...)``."""
    found = []
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=rule), attr="error" | "warning" | "note"),
                    args=[_, message, *fix],
                ) if rule.isupper():
                    found.append((f"{shown(file)}:{node.lineno}", _literal(message), "".join(map(_literal, fix[:1]))))
                case (
                    ast.Call(func=ast.Attribute(attr="report"), args=[_, _, message, *fix])
                    | ast.Call(func=ast.Attribute(attr="finding") | ast.Name(id="Signs"), args=[_, message, *fix])
                ):
                    found.append((f"{shown(file)}:{node.lineno}", _literal(message), "".join(map(_literal, fix[:1]))))
    return found


def _literal(node: ast.expr) -> str:
    return written(node) if isinstance(node, (ast.Constant, ast.JoinedStr)) else ""


def test_messages_are_short() -> None:
    """One sentence of at most 120 characters; a consequence is a second sentence."""
    long = [f"{place}: {text}" for place, text, _ in reports() if any(len(s) > MESSAGE_LIMIT for s in sentences(text))]
    assert not long, "\n".join(long)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", text)


def test_fixes_are_instructions() -> None:
    """A fix begins with a capital letter, as an imperative does, and ends with a full stop."""
    bad = [f"{place}: {fix}" for place, _, fix in reports() if fix and not re.match(r"[A-Z].*[.x]$", fix, re.DOTALL)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("code", all_rules())
def test_rules_are_documented(code: str) -> None:
    """What a rule checks, then the headings of a rule's page in their order."""
    documentation = all_rules()[code].documentation
    assert documentation.checks, "the documentation begins with what the rule checks"
    assert not violations(str(documentation.checks))
    missing = {"Why it matters", "Severity"} - set(documentation.sections)
    assert not missing, f"missing: {', '.join(missing)}"
    assert list(documentation.sections) == [h for h in HEADINGS if h in documentation.sections]
    assert ("Example" in documentation.sections) == ("Instead" in documentation.sections)
