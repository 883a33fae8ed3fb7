from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_exportready.report import columns
from pytest_exportready.report.columns import Column, all_columns
from pytest_exportready.report.run import Run
from pytest_exportready.report.tabs import tabs


class EntryPoint:
    """As importlib.metadata has them."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value, self._value = name, f"package:{name}", value

    def load(self) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of other packages: what a test puts here is what there is."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(columns, "entry_points", lambda group: points if group == "exportready.columns" else [])
    all_columns.cache_clear()
    yield points
    all_columns.cache_clear()


def measured(run: Run, **facts: Any) -> Run:
    """The first case of ``run``, its export with ``facts``."""
    record = run.results[0].readiness
    assert record is not None
    stages = tuple(replace(stage, facts=facts) if stage.name == "export" else stage for stage in record.stages)
    return Run((replace(run.results[0], readiness=replace(record, stages=stages)),))


def test_a_tab_is_there_when_a_case_has_a_figure(run: Run) -> None:
    assert "size" not in tabs(run)[0]
    grid = tabs(measured(run, nodes=1_234, seconds=0.5))[0]["size"]
    assert grid.headings == ("case", "nodes")
    assert [cell.text for cell in grid.rows[0]] == ["mlp", "1,234"]


def test_a_plugin_adds_a_column(plugins: list[EntryPoint], run: Run) -> None:
    plugins.append(EntryPoint("flops", Column("FLOPs", "work", "count", lambda result: result.line * 1_000)))
    found, troubles = tabs(run)
    assert [cell.text for cell in found["work"].rows[0]] == ["mlp", "7,000"]
    assert troubles == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(ImportError("no x"), "column broken (package:broken): ImportError: no x", id="cannot be loaded"),
        pytest.param(7, "column broken (package:broken): is a int, not a Column", id="no column"),
        pytest.param(
            Column("C", "t", "count", lambda _: 1 / 0), "column 'C': ZeroDivisionError: division by zero", id="raises"
        ),
        pytest.param(
            Column("C", "t", "count", lambda _: "1"),  # type: ignore[arg-type, return-value]
            "column 'C': ValueError: is a str, not a number",
            id="no number",
        ),
    ],
)
def test_a_broken_plugin_is_reported_and_takes_nothing_with_it(
    plugins: list[EntryPoint], run: Run, value: Any, message: str
) -> None:
    before, _ = tabs(run)
    plugins.append(EntryPoint("broken", value))
    all_columns.cache_clear()
    assert tabs(run) == (before, [message])


@pytest.mark.parametrize("odd", ["many", True, None, [1], float("inf"), float("nan")])
def test_a_fact_that_is_no_finite_number_is_no_figure(run: Run, odd: Any) -> None:
    assert "size" not in tabs(measured(run, nodes=odd))[0]
