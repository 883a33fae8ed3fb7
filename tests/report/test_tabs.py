from __future__ import annotations

from dataclasses import replace

from pytest_exportready.report.run import Run
from pytest_exportready.report.tabs import ROWS, tabs


def test_the_largest_come_first_and_the_rest_is_counted(run: Run) -> None:
    green = run.results[0]
    many = Run(tuple(replace(green, nodeid=f"t.py::{i}", name=f"{i}", seconds=float(i)) for i in range(ROWS + 30)))
    grid = tabs(many)[0]["timing"]
    assert len(grid.rows) == ROWS
    assert grid.rows[0][1].text == "1 min 19 s"
    assert (grid.rows[0][1].share, grid.rows[0][0].anchor) == (1.0, many.results[-1].anchor)
    assert grid.note == f"The {ROWS} largest of {ROWS + 30}."


def test_stages_tell_where_the_time_went(run: Run) -> None:
    grid = tabs(run)[0]["stages"]
    times = {row[0].text: [cell.text for cell in row[1:]] for row in grid.rows}
    assert list(times) == ["train", "inspect", "export", "parity"]
    assert times["train"][:3] == ["1.25 s", "5", "0.25 s"]
    assert times["parity"][1] == "3"


def test_an_empty_run_has_no_tabs() -> None:
    assert tabs(Run(())) == ({}, [])
