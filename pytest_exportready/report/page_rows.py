"""The rows of the page: models with their scenarios, some as HTML, all as data, the rest in plain lines.

Whatever the number of results, the page stays small: what needs attention comes first, and each kind of text has
a budget. What does not fit is in the JUnit file, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from markupsafe import escape

from pytest_exportready.case.readiness import WORST_FIRST
from pytest_exportready.report import truncate
from pytest_exportready.report.case_text import WORDS, needs_attention, reason
from pytest_exportready.report.run import Run, TestResult

MANY = 200
"""With more results than this, the page begins with those that need attention."""

ROWS, ROW_TEXT = 300, 300
"""Rows that are HTML at the most, and characters of a text in them."""

HTML, ROWS_HTML = 400_000, 200_000
"""Characters of HTML in rows with their details at the most, and how many of them are kept for bare rows."""

BODIES = 1_000
"""Cases that come with all their details at the most."""

CHUNK = 100
REST = 120_000
"""Characters of the plain list that readers without JavaScript get for what has no row."""

MARKS = {"passed": "✓", "failed": "✗", "infra": "!", "skipped": "\N{EN DASH}", "xfailed": "✗", "missing": "?"}


@dataclass
class PageRows:
    """results: in the order of the page. html: the rows that are HTML. bodies: by anchor, for rows that are not."""

    results: list[TestResult]
    labels: dict[str, str]
    stages: tuple[str, ...]
    first: str
    attention: int
    html: list[str] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    bodies: dict[str, str] = field(default_factory=dict)

    def data(self, run: Run) -> Iterator[Any]:
        """For the script of the page: stages, then rows, many to a line, then bodies."""
        yield {"stages": self.stages, "first": self.first, "total": len(self.results), "marks": MARKS}
        rows = [self._row(result) for result in self.results]
        yield from ({"rows": rows[at : at + CHUNK]} for at in range(0, len(rows), CHUNK))
        yield from ({"id": anchor, "body": body} for anchor, body in self.bodies.items())

    def plain_rest(self) -> list[tuple[str, int, str]]:
        """What has no row as HTML: by outcome, how many, and their names, those of one function together."""
        found = []
        room = REST
        for outcome in WORST_FIRST:
            those = [one for one in self.results if one.outcome == outcome and one.anchor not in self.shown]
            text = _together(those)
            if len(escape(text)) > room:
                text = f"{text[: room // 5].rpartition(' ')[0]} ... (the others are in the JUnit file)"
            room = max(room - len(escape(text)), 0)
            if those:
                found.append((WORDS[outcome], len(those), text))
        return found

    def _row(self, result: TestResult) -> list[Any]:
        cells = "".join(result.cells.get(stage, " ")[0] for stage in self.stages)
        told = truncate.line(reason(result), ROW_TEXT)
        label, nodeid = (truncate.line(text, ROW_TEXT) for text in (self.labels[result.nodeid], result.nodeid))
        attention = int(needs_attention(result))
        return [result.anchor[5:], label, nodeid, cells, f"{result.seconds:.2f}", result.outcome, attention, told]


def page_rows(run: Run, macros: Any) -> PageRows:
    """Rows and details of ``run``, each ``template`` rendered with ``result``, ``label``, ``stages`` and ``reason``."""
    results = _grouped(run.results)
    attention = sum(map(needs_attention, results))
    first = "attention" if len(results) > MANY and attention else "all"
    rows = PageRows(results, run.labels, run.stages, first, attention)
    room = HTML
    before = ""
    chosen = results if first == "all" else [result for result in results if needs_attention(result)]
    for number, result in enumerate(chosen[:BODIES]):
        body = str(macros.body(result))
        inside = body if number < ROWS and len(body) < room - ROWS_HTML else ""
        again, before = model(result) == before, model(result)
        label, told = (truncate.line(text, ROW_TEXT) for text in (run.labels[result.nodeid], reason(result)))
        row = str(macros.case(result, label, run.stages, told, again, inside)) if number < ROWS else ""
        room -= len(row)
        if row and room > 0:
            rows.html.append(row)
            rows.shown.add(result.anchor)
        if not inside:
            rows.bodies[result.anchor] = body
    return rows


def model(result: TestResult) -> str:
    """What the scenarios, or parameters, of one case have in common."""
    return result.nodeid.partition("[")[0]


def _grouped(results: tuple[TestResult, ...]) -> list[TestResult]:
    """The scenarios of a model together, the model with the worst first, else in the order they ran."""
    groups: dict[str, list[TestResult]] = {}
    for result in results:
        groups.setdefault(model(result), []).append(result)
    worst = {name: min(WORST_FIRST.index(one.outcome) for one in group) for name, group in groups.items()}
    return [result for name in sorted(groups, key=worst.__getitem__) for result in groups[name]]


def _together(results: list[TestResult]) -> str:
    groups: dict[str, list[str]] = {}
    for result in results:
        name, _, parameters = result.nodeid.partition("[")
        groups.setdefault(name, []).append(parameters.removesuffix("]"))
    files: dict[str, list[str]] = {}
    for name, inside in groups.items():
        file, _, function = name.partition("::")
        told = f"{function}[{', '.join(inside)}]" if any(inside) else function
        files.setdefault(file, []).append(told)
    return "; ".join(f"{file}: {', '.join(functions)}" for file, functions in files.items())
