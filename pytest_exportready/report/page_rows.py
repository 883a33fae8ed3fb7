"""The rows of the page: models with their scenarios, some as HTML, all as data, the others in plain lines.

The page stays small for any number of results: cases that need attention come first, and each kind of text has a limit.
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
"""With more results, the page begins with those that need attention."""

ROWS, ROW_TEXT = 300, 300
"""The most rows as HTML, and the most characters of a text in them."""

HTML, ROWS_HTML = 400_000, 200_000
"""The most characters of HTML in rows, and how many of them are reserved for rows without details."""

BODIES = 1_000
"""The most cases with details."""

CHUNK = 100
REST = 120_000
"""Characters of the plain list of cases without a row, for readers without JavaScript."""

MARKS = {"passed": "✓", "failed": "✗", "infra": "!", "skipped": "\N{EN DASH}", "xfailed": "✗", "missing": "?"}


@dataclass
class PageRows:
    """The cases of the page."""

    results: list[TestResult]  # in the order of the page
    labels: dict[str, str]
    stages: tuple[str, ...]
    first: str
    attention: int
    html: list[str] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    bodies: dict[str, str] = field(default_factory=dict)  # details by anchor, where the row does not have them

    def data(self, run: Run) -> Iterator[Any]:
        """Yield the lines for the script of the page: stages, rows in chunks, then details."""
        yield {"stages": self.stages, "first": self.first, "total": len(self.results), "marks": MARKS}
        rows = [self._row(result) for result in self.results]
        yield from ({"rows": rows[at : at + CHUNK]} for at in range(0, len(rows), CHUNK))
        yield from ({"id": anchor, "body": body} for anchor, body in self.bodies.items())

    def plain_rest(self) -> list[tuple[str, int, str]]:
        """Return outcome, number and names of the cases without a row as HTML."""
        found = []
        room = REST
        for outcome in WORST_FIRST:
            those = [one for one in self.results if one.outcome == outcome and one.anchor not in self.shown]
            text = _together(those)
            if len(escape(text)) > room:
                text = f"{text[: room // 5].rpartition(' ')[0]} ... (the rest is in the JUnit file)"
            room = max(room - len(escape(text)), 0)
            if those:
                found.append((WORDS[outcome], len(those), text))
        return found

    def _row(self, result: TestResult) -> list[Any]:
        cells = "".join(result.stage_outcomes.get(stage, " ")[0] for stage in self.stages)
        texts = (self.labels[result.nodeid], result.nodeid, reason(result))
        label, nodeid, why = (truncate.line(text, ROW_TEXT) for text in texts)
        attention = int(needs_attention(result))
        return [result.anchor[5:], label, nodeid, cells, f"{result.seconds:.2f}", result.outcome, attention, why]


def page_rows(run: Run, macros: Any) -> PageRows:
    """Return the rows and details of ``run``, rendered with the macros ``case`` and ``body``."""
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
        label, why = (truncate.line(text, ROW_TEXT) for text in (run.labels[result.nodeid], reason(result)))
        row = str(macros.case(result, label, run.stages, why, again, inside)) if number < ROWS else ""
        room -= len(row)
        if row and room > 0:
            rows.html.append(row)
            rows.shown.add(result.anchor)
        if not inside:
            rows.bodies[result.anchor] = body
    return rows


def model(result: TestResult) -> str:
    """Return the node id without scenario or parameters."""
    return result.nodeid.partition("[")[0]


def _grouped(results: tuple[TestResult, ...]) -> list[TestResult]:
    """Return the scenarios of each model together, the model with the worst outcome first."""
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
        files.setdefault(file, []).append(f"{function}[{', '.join(inside)}]" if any(inside) else function)
    return "; ".join(f"{file}: {', '.join(functions)}" for file, functions in files.items())
