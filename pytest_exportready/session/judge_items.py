"""The hooks of a run with ``--export-ready`` in every process of it: collect the cases and judge each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from io import StringIO
from typing import Any

import pytest

from pytest_exportready.analysis.execution.trial import ResultCache
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.session.graceful_exit import exit_is_raised
from pytest_exportready.session.marker import CASE_OPTIONS, PROBLEM, arguments_of, take_options
from pytest_exportready.session.options import MARKER, OPTIONS
from pytest_exportready.session.plain_data import plain_data
from pytest_exportready.session.progress import Progress
from pytest_exportready.session.ranks import Together, in_rank, run_in_ranks, together, without_verdict
from pytest_exportready.session.reference_models import ReferenceModels, installed_at
from pytest_exportready.session.reporting import PROBLEMS, Reporting
from pytest_exportready.session.sharding import shared_out
from pytest_exportready.session.torch_output import torch_output_kept

READINESS = pytest.StashKey[Readiness]()
TORCH_OUTPUT = pytest.StashKey[StringIO]()
SCENARIO = "export_ready_scenario"
DEFAULT_SCENARIO = "plain"


def register(config: pytest.Config) -> None:
    """Register the hooks that only a run with ``--export-ready`` has."""
    progress = Progress(config)
    folder = installed_at()
    if folder is not None:
        config.pluginmanager.register(ReferenceModels(config, folder), "exportready-reference-models")
    config.pluginmanager.register(ExportReadySession(config, progress), "exportready-session")
    if not hasattr(config, "workerinput") and not in_rank(config):
        config.pluginmanager.register(Reporting(config, progress), "exportready-reporting")


def chosen_scenario(item: pytest.Item) -> str | None:
    """The scenario that the case's marker asks for."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(SCENARIO) if callspec else None


class ExportReadySession:
    """The hooks that collect cases and judge them; on the controller of xdist they have nothing to do."""

    def __init__(self, config: pytest.Config, progress: Progress) -> None:
        self.config = config
        self.progress = progress
        self.in_ranks: dict[str, str] = {}  # of each case that runs in ranks, its scenario

    # -- collection

    @pytest.fixture
    def export_ready_scenario(self, request: pytest.FixtureRequest) -> str:
        return str(getattr(request, "param", DEFAULT_SCENARIO))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        scenarios = arguments_of(metafunc.definition).get("scenarios")
        names = [scenarios] if isinstance(scenarios, str) else scenarios
        if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
            if SCENARIO not in metafunc.fixturenames:
                metafunc.fixturenames.append(SCENARIO)
            metafunc.parametrize(SCENARIO, list(dict.fromkeys(names)), indirect=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        cases = [item for item in items if item.get_closest_marker(MARKER) is not None]
        others = [item for item in items if item.get_closest_marker(MARKER) is None]
        for item in cases:
            take_options(item)
        problems: list[str] = []
        if not in_rank(config):  # which is given the cases of its shard, and would take a share of them
            cases, of_other_shards = shared_out(config, cases, problems)
            others += of_other_shards
        items[:] = [] if problems else cases
        if problems and not hasattr(config, "workeroutput"):
            raise pytest.UsageError("\n".join(problems))
        if problems:  # raised in a worker it would be taken for a crash: the controller tells it
            config.workeroutput[PROBLEMS] = problems  # type: ignore[attr-defined]
        elif others:
            config.hook.pytest_deselected(items=others)
        for item in items:
            scenario = chosen_scenario(item) or DEFAULT_SCENARIO
            if run_in_ranks(item, scenario):
                self.in_ranks[item.nodeid] = scenario

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """No case is charged for what torch imports late, nor the ranks that are forked from this process."""
        here = (item for item in session.items if CASE_OPTIONS in item.stash and item.nodeid not in self.in_ranks)
        if not self.config.option.collectonly and (any(here) or (in_rank(self.config) and self.in_ranks)):
            from pytest_exportready.analysis.processes.warm_up import rehearse

            rehearse()

    # -- running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if CASE_OPTIONS in item.stash and (in_rank(self.config) or item.nodeid not in self.in_ranks):
            from pytest_exportready.session.seed import seed

            seed()  # before fixtures: one that seeds otherwise has its way

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        __tracebackhide__ = True
        if PROBLEM not in item.stash:
            return
        from pytest_exportready.session.verdict import misdeclared, settle

        readiness = misdeclared(item, chosen_scenario(item) or DEFAULT_SCENARIO)
        item.stash[READINESS] = readiness.relative_to(self.config.rootpath)
        settle(readiness, CaseOptions())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, object, object]:
        scenario = self.in_ranks.get(report.nodeid)
        if scenario is not None and report.failed and not hasattr(report, "exportready"):
            report.exportready = without_verdict(report, scenario).to_dict()  # type: ignore[attr-defined]
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
        options = pyfuncitem.stash.get(CASE_OPTIONS, None)
        if options is None:
            return (yield)
        function = pyfuncitem.obj

        @functools.wraps(function)
        def judged(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            with torch_output_kept() as output, exit_is_raised():
                pyfuncitem.stash[TORCH_OUTPUT] = output
                self._judge(pyfuncitem, options, function, args, kwargs)

        if READINESS in pyfuncitem.stash:  # of an attempt before
            del pyfuncitem.stash[READINESS]
        pyfuncitem.obj = judged
        try:
            return (yield)
        finally:
            pyfuncitem.obj = function

    def _judge(self, item: pytest.Function, options: CaseOptions, function: Any, args: Any, kwargs: Any) -> None:
        __tracebackhide__ = True
        from pytest_exportready.session.verdict import settle

        ranks = together(self.config)
        readiness, error = self._verdict(item, options, functools.partial(function, *args, **kwargs), ranks)
        if ranks is not None:
            if error is not None:
                ranks.leave()
            readiness = ranks.settle(readiness)
        if readiness is not None:
            readiness = item.stash[READINESS] = readiness.relative_to(self.config.rootpath)
        if error is not None:
            raise error
        assert readiness is not None
        settle(readiness, options, expect_failures=not self.config.getoption("runxfail", False))

    def _verdict(
        self, item: pytest.Function, options: CaseOptions, build: functools.partial[Any], ranks: Together | None
    ) -> tuple[Readiness | None, BaseException | None]:
        """The readiness of a case and what building or judging it raised; no readiness for what pytest itself reads."""
        from pytest_exportready.session import verdict
        from pytest_exportready.session.export_hooks import ExportHooks

        chosen = chosen_scenario(item)
        name, scenario = item.nodeid, chosen or DEFAULT_SCENARIO
        if inspect.iscoroutinefunction(build.func) or inspect.isasyncgenfunction(build.func):
            message = "the case function is async, so that it returns no case"
            return verdict.no_case(message, "write def, not async def", name=name, scenario=scenario), None
        fault = verdict.raised
        try:
            returned = build()
            fault = verdict.crashed
            return verdict.judge_returned(
                returned,
                options,
                name=name,
                scenario=scenario,
                required=chosen is not None,
                watch=self.progress.stage if ranks is None else lambda stage: None,
                on_export=ExportHooks(item.ihook, name),
                ranks=ranks,
                cache=self._cache,
            ), None
        except verdict.PYTESTS_OWN as error:
            return None, error
        except verdict.FAULTS as error:
            return fault(error, name=name, scenario=scenario), error

    @functools.cached_property
    def _cache(self) -> ResultCache | None:
        """Results of earlier runs, as far as the options ask for them."""
        options = self.config.stash[OPTIONS]
        if options.cache == "off":
            return None
        from pytest_exportready.judge.cache.stage_results import CachedResults

        return CachedResults(options.cache_dir, options.cache_bytes, read_only=options.cache == "read")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        readiness = item.stash.get(READINESS, None)
        if call.when == "call" and readiness is not None:
            report.exportready = readiness.to_dict()  # type: ignore[attr-defined]
        if call.when == "call" and TORCH_OUTPUT in item.stash:
            report.exportready_output = item.stash[TORCH_OUTPUT].getvalue()  # type: ignore[attr-defined]
            del item.stash[TORCH_OUTPUT]
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, Any, Any]:
        return plain_data((yield))
