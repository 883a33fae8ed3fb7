"""The time of each stage over all cases."""

from __future__ import annotations

from statistics import median

from pytest_exportready.report.run import Run
from pytest_exportready.report.tables._table import Grid, GridCell, PageTable, bar
from pytest_exportready.report.units import duration


def grid(run: Run) -> Grid | None:
    times: dict[str, list[tuple[float, str, str]]] = {}
    for result in run.results:
        for ran in result.readiness.stages if result.readiness else ():
            if ran.outcome != "skipped" and not ran.cached:
                times.setdefault(ran.name, []).append((ran.seconds, run.labels[result.nodeid], result.anchor))
    totals = {name: sum(seconds for seconds, _, _ in those) for name, those in times.items()}
    largest = max(totals.values(), default=0.0)
    rows = []
    for stage in sorted(times, key=run.stages.index):
        slowest = max(times[stage])
        middle = median(seconds for seconds, _, _ in times[stage])
        total = bar(totals[stage], largest, duration(totals[stage]))
        rows.append(
            (
                GridCell(stage),
                total,
                GridCell(f"{len(times[stage]):,}"),
                GridCell(duration(middle)),
                GridCell(f"{slowest[1]}, {duration(slowest[0])}", anchor=slowest[2]),
            )
        )
    return Grid(("stage", "total", "cases", "median", "slowest"), tuple(rows))


TABLE = PageTable("stages", grid)
