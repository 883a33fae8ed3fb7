from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.terminal import summary_lines, write_summary

TABLE = [
    "case  train  inspect  export  parity",
    "vit   ok     FAIL     -       -",
    "gpt   infra: worker 'gw0' crashed",
    "old   missing: was there last night",
    "mlp   ok     ok       ok      ok",
    "dlrm  ok     ok       ok      ok",
    "bert  ok     ok       ok      ok",
    "moe   ok     ok       FAIL    -       (expected)",
    "gan   skipped: needs 2 GPUs",
    "",
]
ERRORS = [
    "vit at inspect  tests/test_export.py::test_vit",
    "  net.bn1: [ER302 batchnorm_frozen] is in training mode. Fix: model.eval()",
    "gpt  tests/test_export.py::test_gpt",
    "  worker 'gw0' crashed",
    "old  tests/test_export.py::test_old",
    "  was there last night",
    "",
]
REST = [
    "warning: vit: net.fc: [ER305 no_residual_gradients] holds a gradient",
    "warning: dlrm: net.fc: [ER305 no_residual_gradients] holds a gradient",
    "",
    "findings: 1 error, 2 warnings",
    f"JUnit: {Path('exportready', 'junit.xml')}",
    f"HTML: {Path('/r/report.html')}",
    "Not ready: 1 of 8 cases (vit at inspect); 2 inconclusive",
]
PATHS = [Path.cwd() / "exportready" / "junit.xml", Path("/r/report.html")]


def test_table_findings_files_verdict(run: Run) -> None:
    assert summary_lines(run, PATHS) == [*TABLE, *ERRORS, *REST]


def test_what_pytest_has_printed_is_not_printed_again(run: Run) -> None:
    """A test that never ran has no entry under FAILURES."""
    printed = ["tests/test_export.py::test_vit", "tests/test_export.py::test_gpt"]
    assert summary_lines(run, PATHS, printed=printed) == [*TABLE, *ERRORS[4:], *REST]


STAGES = ("train", "inspect", "eager", "export", "interface", "operators", "parity", "layouts", "reload", "shapes")
NAMES = ("mlp", "a_name_of_medium_length[plain-3]", "test_module.py::TestClass::test_" + "long_" * 6 + "name[ddp]")


def wide_run(names: tuple[str, ...] = NAMES) -> Run:
    stages = tuple(StageResult(name, "failed" if name == "parity" else "passed") for name in STAGES)
    records = {name: Readiness(name, "plain", stages, ()) for name in names}
    return Run(tuple(TestResult(f"t.py::{n}", "t", n, outcome="failed", readiness=r) for n, r in records.items()))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_names_of_cases_and_stages_are_whole_at_any_width(width: int) -> None:
    run = wide_run()
    lines = summary_lines(run, width=width, printed=[result.nodeid for result in run.results])
    table = lines[: lines.index("")]
    assert max(map(len, table)) <= width
    words = set(" ".join(table).replace(",", "").replace("=", " ").split())
    assert words >= {"case", *STAGES, *run.labels.values()}
    cells = [line.split()[-len(STAGES) :] for line in table if "FAIL" in line]
    assert cells == [["ok"] * 6 + ["FAIL"] + ["ok"] * 3] * len(NAMES)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_columns_are_aligned(width: int) -> None:
    lines = summary_lines(wide_run(), width=width)
    head = next(line for line in lines if line.startswith("case"))
    column = head.index("parity") if "parity" in head else head.index(" 7 ") + 1
    assert {line.index("FAIL") for line in lines if "FAIL" in line} == {column}
    assert ("7=parity" in " ".join(lines)) == ("parity" not in head)


def test_a_name_wider_than_the_terminal_is_not_cut() -> None:
    name = "n" * 300
    assert name in summary_lines(wide_run((name,)), width=80)


def test_ten_thousand_failures_do_not_flood_the_terminal(run: Run) -> None:
    many = tuple(replace(run.results[1], nodeid=f"t.py::{i}", name=f"{i}") for i in range(10_000))
    lines = summary_lines(Run(many))
    assert len(lines) < 400
    assert lines[-1].startswith("Not ready: 10,000 of 10,000 cases")


def test_hostile_text_cannot_steer_the_terminal(hostile_run: Run) -> None:
    assert not any(set(line) & {"\x1b", "\x00", "\r", "\n", "\x07"} for line in summary_lines(hostile_run))


def test_an_empty_run_has_its_verdict_only() -> None:
    assert summary_lines(Run(())) == ["Inconclusive: no case ran"]


def test_written_with_colours(run: Run) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.text = ""
            self.stats: dict[str, list[Any]] = {}
            self.config = SimpleNamespace(getoption=lambda name, default: default)
            self._tw = SimpleNamespace(fullwidth=80)
            self.red: list[str] = []

        def section(self, title: str, **_: Any) -> None:
            self.text += f"== {title}\n"

        def write(self, text: str, **markup: bool) -> None:
            self.text += text
            if markup.get("red"):
                self.red.append(text.strip())

        def line(self, text: str) -> None:
            self.text += f"{text}\n"

    terminal = Terminal()
    write_summary(terminal, run, [])  # type: ignore[arg-type]
    assert terminal.text.splitlines() == ["== export readiness", *summary_lines(run)]
    assert terminal.red == ["FAIL", "FAIL", "vit at inspect", run.verdict]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_infos_are_counted(run: Run, count: int) -> None:
    from pytest_exportready.case.finding import Finding

    info = Finding("ER705", "loads_without_imports", "note", "", "needs an import", "")
    record = replace(run.results[0].readiness, findings=(info,) * count)  # type: ignore[type-var]
    lines = summary_lines(Run((replace(run.results[0], readiness=record),)))
    counts = [line for line in lines if "findings" in line]
    assert counts == {0: [], 1: ["findings: 1 note"], 3: ["findings: 3 notes"]}[count]


def test_a_patch_keeps_its_lines() -> None:
    """So that it can be copied, after what torch says on a line of its own; a fix is one line."""
    patch = "--- net.py\n+++ net.py\n@@ -1 +1 @@\n-    y = a if c else b\n+    y = torch.where(c, a, b)"
    findings = (
        Finding("ER401", "rule", "error", "net", "branches", "apply it", patch=patch, torch_says="Error: u0 > 0"),
        Finding("ER401", "rule", "error", "net", "branches", "one\nline Fix: --- net.py"),
    )
    stages = (StageResult("export", "failed"),)
    result = TestResult("t.py::a", "t", "a", outcome="failed", readiness=Readiness("a", "plain", stages, findings))
    lines = summary_lines(Run((result,)))
    first = lines.index("  net: [ER401 rule] branches. Fix: apply it")
    assert lines[first + 1] == "   torch: Error: u0 > 0"
    assert lines[first + 2 : first + 7] == [f"  {line}" for line in patch.splitlines()]
    assert lines[first + 7] == "  net: [ER401 rule] branches. Fix: one line Fix: --- net.py"
