"""The pytest hooks of a run with ``--export-ready``: collect the cases, judge each, gather and write the reports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_exportready.case import CaseError, CaseOptions, case_options
from pytest_exportready.discover import module_names
from pytest_exportready.options import OPTIONS
from pytest_exportready.plugin import MARKER
from pytest_exportready.progress import Progress
from pytest_exportready.readiness import Readiness
from pytest_exportready.report.gather import Gather
from pytest_exportready.report.run import Run
from pytest_exportready.text import exception_text
from pytest_exportready.trace_log import without_structured_trace

CASE_OPTIONS = pytest.StashKey[CaseOptions]()
READINESS = pytest.StashKey[Readiness]()
SCENARIO = "export_ready_scenario"
DEFAULT_SCENARIO = "plain"


class ExportReadySession:
    """Registered only when ``--export-ready`` is given."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = config.stash[OPTIONS]
        self.config = config
        self.progress = Progress(config)
        self.gather = Gather()
        self.run: Run | None = None
        self.troubles: list[str] = []
        self.models = _reference_models()
        given = config.args_source is config.ArgsSource.ARGS
        wanted = self.options.reference_models
        if self.models and (wanted == "always" or (wanted == "auto" and not given)):
            config.args.append(str(self.models))

    # -- collection

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        if self.models is None or file_path.parent != self.models or file_path.suffix != ".py":
            return None
        if file_path.name.startswith("_") or parent.session.isinitpath(file_path):
            return None  # a file that is named on the command line is collected by pytest itself
        # the same id wherever the package lies: reports of different machines and nights are compared by it
        return pytest.Module.from_parent(parent, path=file_path, nodeid=f"{self.models.name}/{file_path.name}")

    @pytest.fixture
    def export_ready_scenario(self, request: pytest.FixtureRequest) -> str:
        return str(getattr(request, "param", DEFAULT_SCENARIO))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        marker = metafunc.definition.get_closest_marker(MARKER)
        scenarios = marker.kwargs.get("scenarios") if marker else None
        if isinstance(scenarios, (list, tuple)) and all(isinstance(name, str) for name in scenarios):
            metafunc.fixturenames.append(SCENARIO)
            metafunc.parametrize(SCENARIO, list(dict.fromkeys(scenarios)), indirect=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        cases = [item for item in items if item.get_closest_marker(MARKER) is not None]
        problems = []
        for item in cases:
            try:
                item.stash[CASE_OPTIONS] = _options_of(item)
            except CaseError as error:
                problems.append(f"{item.nodeid}: export_ready: {error}")
        if problems:
            raise pytest.UsageError("\n".join(dict.fromkeys(problems)))
        others = [item for item in items if item not in set(cases)]
        if others:
            config.hook.pytest_deselected(items=others)
        items[:] = cases
        self.progress.collected(len(items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self.progress.collected(len(ids))

    # -- running

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        options = pyfuncitem.stash.get(CASE_OPTIONS, None)
        if options is None:
            return (yield)
        function = pyfuncitem.obj

        @functools.wraps(function)
        def judged(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            self._judge(pyfuncitem, options, function, args, kwargs)

        pyfuncitem.obj = judged
        try:
            return (yield)
        finally:
            pyfuncitem.obj = function

    def _judge(self, item: pytest.Function, options: CaseOptions, function: Any, args: Any, kwargs: Any) -> None:
        __tracebackhide__ = True
        from pytest_exportready.verdict import judge_returned, raised, settle

        params = getattr(item, "callspec", None)
        chosen = params.params.get(SCENARIO) if params else None
        scenario = chosen or DEFAULT_SCENARIO
        self.progress.begin(item)
        try:
            returned = function(*args, **kwargs)
        except Exception as error:
            item.stash[READINESS] = raised(error, name=item.nodeid, scenario=scenario)
            raise
        required, watch = chosen is not None, self.progress.stage
        with without_structured_trace():
            readiness = judge_returned(
                returned, options, name=item.nodeid, scenario=scenario, required=required, watch=watch
            )
        item.stash[READINESS] = readiness
        settle(readiness, options)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        readiness = item.stash.get(READINESS, None)
        if call.when == "call" and readiness is not None:
            report.exportready = readiness.to_dict()  # type: ignore[attr-defined]
        return report

    # -- reporting, on the controller

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.gather.add(report)
        self.progress.end(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.gather.add_collect(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        return self.progress.status(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        from pytest_exportready.report.html import write_html
        from pytest_exportready.report.junit import read_junit, write_junit

        self.run = self.gather.run(_properties())
        self._write(self.options.junit, lambda path: write_junit(self.run, path))
        if not self.troubles:
            self.run = read_junit(self.options.junit)  # every other report is made from the JUnit file
        self._write(self.options.html, lambda path: write_html(self.run, path))

    def _write(self, path: Path, write: Callable[[Path], None]) -> None:
        """A report that cannot be written is told, and takes nothing else with it."""
        try:
            write(path)
        except Exception as error:
            self.troubles.append(f"cannot write {path}: {exception_text(error)}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.run is None:
            return
        from pytest_exportready.report.terminal import write_summary

        written = [path for path in (self.options.junit, self.options.html) if not any(str(path) in t for t in self.troubles)]
        write_summary(terminalreporter, self.run, written)
        for trouble in self.troubles:
            terminalreporter.write_line(f"{trouble}. Fix: free space or another path (--export-ready-junit, -html)", red=True)


def _options_of(item: pytest.Item) -> CaseOptions:
    from pytest_exportready.runner import known_codes, stage_names

    marker = item.get_closest_marker(MARKER)
    assert marker is not None
    if marker.args:
        raise CaseError(f"takes keyword arguments only, got {marker.args!r}")
    if not isinstance(item, pytest.Function):
        raise CaseError("belongs on a function or a method of a plain class")
    return case_options(marker.kwargs, scenarios=_scenario_names(), stages=stage_names(), codes=known_codes())


def _scenario_names() -> list[str]:
    from exportready_fixtures import scenarios

    return module_names(scenarios)


def _reference_models() -> Path | None:
    spec = find_spec("exportready_reference_models")
    return Path(spec.origin).parent if spec and spec.origin else None


def _properties() -> dict[str, str]:
    import platform

    import torch

    from pytest_exportready import __version__

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "pytest-exportready": __version__,
        "torch": torch.__version__,
        "torch.git_version": str(torch.version.git_version),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": ", ".join(gpus) or "none (CPU only)",
    }
