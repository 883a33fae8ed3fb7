"""The hooks that gather results and write the reports, in the controller of a run with ``--export-ready``."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.report.collect_results import Gather
from pytest_exportready.report.run import Run
from pytest_exportready.report.shard import RanShard
from pytest_exportready.session.environment import properties
from pytest_exportready.session.graceful_exit import reported_on_sigterm
from pytest_exportready.session.options import OPTIONS
from pytest_exportready.session.progress import Progress
from pytest_exportready.session.sharding import RAN, SHARD

USAGE_ERROR = "exportready_usage_error"
"""The key under which a worker of xdist sends a usage error."""

GREEN = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
NOTHING_RUNS = ("collectonly", "setuponly", "showfixtures", "show_fixtures_per_test")


class Reporting:
    """Gather results and write reports. An error in here is printed at the end and fails the run."""

    def __init__(self, config: pytest.Config, progress: Progress) -> None:
        self.config = config
        self.options = config.stash[OPTIONS]
        self.progress = progress
        self.gather = Gather()
        self.run: Run | None = None
        self.session: pytest.Session | None = None
        self.written: list[Path] = []
        self.errors: list[str] = []
        self.hints: list[str] = []
        self.usage_error = ""
        self.pending: dict[str, None] | None = None
        self.shard: RanShard | None = None

    @contextmanager
    def _surviving(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            fix = "Report this error to pytest-exportready."
            if isinstance(error, OSError):
                fix = "Free disk space, or use another path (--export-ready-junit, --export-ready-html)."
            self.errors.append(f"Cannot {doing}: {exception_text(error)}. Fix: {fix}")
            self._fail_run()

    def _fail_run(self) -> None:
        if self.session is not None and self.session.exitstatus in GREEN:
            self.session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _nothing_runs(self) -> bool:
        return any(self.config.getoption(name, False) for name in NOTHING_RUNS)

    # -- while cases run

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if self.pending is None:  # every worker collects, also one that replaces another
            self._collected(ids)

    def _collected(self, ids: Sequence[str]) -> None:
        self.pending = dict.fromkeys(ids)
        self.progress.collected(len(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.progress.begin(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.pending is not None:
            self.pending.pop(report.nodeid, None)
        with self._surviving("read a test report"):
            self.gather.add(report)
            self.progress.end(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            with self._surviving("read a test report"):
                self.gather.add_collect(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        return self.progress.status(report, (yield))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        self.usage_error = output.get(USAGE_ERROR, self.usage_error)
        if SHARD in output:
            self.shard = RanShard(**output[SHARD])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        if not self._nothing_runs:
            for path in (self.options.junit, self.options.html):
                with suppress(OSError):  # reported when it is written
                    path.unlink()  # a crash must not leave the verdict of an earlier run
        with reported_on_sigterm():
            result = yield
        if self.usage_error:
            raise pytest.UsageError(self.usage_error)
        return result

    # -- at the end

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._nothing_runs:
            return
        self.session = session
        self.shard = self.config.stash.get(RAN, self.shard)
        for nodeid in self.pending or ():
            with self._surviving("read a test report"):
                self.gather.add(_did_not_run(nodeid))
        with self._surviving("create the reports"):
            shards = (self.shard,) if self.shard else ()
            self.run = replace(self.gather.run(properties(self.config.rootpath)), shards=shards)
            if self.options.confirm and self.run.counts["failed"]:
                self.run = self._confirmed(self.run)
            self._write(self.run)
        if self.shard and self.shard.cases and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # more shards than cases
        if self.errors:
            self._fail_run()

    def _confirmed(self, run: Run) -> Run:
        from pytest_exportready.session.rerun_failures import confirmed

        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
        run = confirmed(self.config, run, self.options.confirm, terminal.write_line if terminal else lambda line: None)
        assert self.session is not None
        judged = run.counts["passed"] and not any(run.counts[outcome] for outcome in ("failed", "infra", "missing"))
        if judged and self.session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            self.session.exitstatus = pytest.ExitCode.OK  # every failure has passed in a new process
        return run

    def _write(self, run: Run) -> None:
        """Write every report from ``run``, which is also what the JUnit file is read as."""
        from pytest_exportready.report.ci_limits import too_large
        from pytest_exportready.report.html import write_html
        from pytest_exportready.report.junit import write_junit
        from pytest_exportready.report.rules_html import write_rules

        junit, html = self.options.junit, self.options.html
        with self._surviving(f"write {junit}"):
            write_junit(run, junit, self.options.junit_form)
            self.written.append(junit)
            self.hints += filter(None, [too_large(run, junit)])
        with self._surviving(f"write {html}"):
            write_html(run, html)
            self.written.append(html)
            with self._surviving(f"write the page of rules beside {html}"):
                write_rules(html)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.run is not None:
            from pytest_exportready.report.terminal import write_summary

            with self._surviving("print the summary"):
                write_summary(terminalreporter, self.run, self.written)
            self.run = None  # millions of objects, which would slow down garbage collection
        for hint in self.hints:
            terminalreporter.write_line(hint, yellow=True)
        for error in self.errors:
            terminalreporter.write_line(error, red=True)


def _did_not_run(nodeid: str) -> pytest.TestReport:
    """Return a report in the form that xdist uses for a crash: an infrastructure error of the case."""
    return pytest.TestReport(
        nodeid=nodeid,
        location=(nodeid.split("::")[0], None, nodeid),
        keywords={},
        outcome="failed",
        longrepr="did not run: the session ended before its turn",
        when="???",  # type: ignore[arg-type]
    )
