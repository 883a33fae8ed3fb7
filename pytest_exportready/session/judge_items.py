"""The hooks that collect and judge cases, in every process of a run with ``--export-ready``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from pytest_exportready.analysis.execution.trial import ResultCache
from pytest_exportready.case.devices import is_gpu
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.session.case_devices import DEVICE, Devices
from pytest_exportready.session.graceful_exit import exit_is_raised
from pytest_exportready.session.marker import CASE_OPTIONS, MARKER_FINDING, arguments_of, declared_at, take_options
from pytest_exportready.session.options import MARKER, OPTIONS
from pytest_exportready.session.plain_data import plain_data
from pytest_exportready.session.progress import Progress
from pytest_exportready.session.ranks import (
    Together,
    current_rank,
    in_rank,
    ranks_of,
    run_in_ranks,
    together,
    without_verdict,
)
from pytest_exportready.session.reference_models import ReferenceModels, installed_at
from pytest_exportready.session.reporting import USAGE_ERROR, Reporting
from pytest_exportready.session.sharding import split_by_shard
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


def chosen_device(item: pytest.Item) -> str:
    """Return the device that the case is moved to; empty if it stays where it is built."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get(DEVICE, "")) if callspec else ""


def chosen_scenario(item: pytest.Item) -> str | None:
    """Return the scenario that the case's marker names; None if it names none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(SCENARIO) if callspec else None


class ExportReadySession:
    """The hooks that collect and judge cases; the controller of xdist has no cases."""

    def __init__(self, config: pytest.Config, progress: Progress) -> None:
        self.config = config
        self.progress = progress
        self.devices = Devices(config)
        self.in_ranks: dict[str, tuple[str, str]] = {}  # scenario and device of each case that runs in ranks

    # -- collection

    @pytest.fixture
    def export_ready_scenario(self, request: pytest.FixtureRequest) -> str:
        return str(getattr(request, "param", DEFAULT_SCENARIO))

    @pytest.fixture(scope="session")
    def export_ready_device(self, request: pytest.FixtureRequest) -> str:
        return str(getattr(request, "param", ""))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        scenarios = arguments_of(metafunc.definition).get("scenarios")
        names = [scenarios] if isinstance(scenarios, str) else scenarios
        if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
            if SCENARIO not in metafunc.fixturenames:
                metafunc.fixturenames.append(SCENARIO)
            metafunc.parametrize(SCENARIO, list(dict.fromkeys(names)), indirect=True)
        is_case = metafunc.definition.get_closest_marker(MARKER) is not None
        if is_case and (devices := self.devices.of(metafunc.definition)):
            if DEVICE not in metafunc.fixturenames:
                metafunc.fixturenames.append(DEVICE)
            metafunc.parametrize(DEVICE, devices, indirect=True, scope="session")  # all on one device, then the next

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        cases = [item for item in items if item.get_closest_marker(MARKER) is not None]
        others = [item for item in items if item.get_closest_marker(MARKER) is None]
        for item in cases:
            take_options(item)
        if not in_rank(config):  # a rank runs only cases of this shard
            try:
                cases, of_other_shards = split_by_shard(config, cases)
            except pytest.UsageError as error:
                if not hasattr(config, "workeroutput"):
                    raise
                config.workeroutput[USAGE_ERROR] = str(error)  # the controller raises it: xdist reports a crash
                cases, of_other_shards = [], []
            others += of_other_shards
        items[:] = cases
        if others:
            config.hook.pytest_deselected(items=others)
        for item in items:
            scenario, device = chosen_scenario(item) or DEFAULT_SCENARIO, chosen_device(item)
            if run_in_ranks(item, scenario, self.devices.gpus(device, ranks_of(scenario))):
                self.in_ranks[item.nodeid] = scenario, device

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Import what torch imports late, so that no case and no forked rank has to."""
        here = (item for item in session.items if CASE_OPTIONS in item.stash and item.nodeid not in self.in_ranks)
        if not self.config.option.collectonly and (any(here) or (in_rank(self.config) and self.in_ranks)):
            from pytest_exportready.analysis.processes.warm_up import rehearse

            rehearse()

    # -- running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if CASE_OPTIONS in item.stash and (in_rank(self.config) or item.nodeid not in self.in_ranks):
            from pytest_exportready.session.seed import seed

            seed()  # before fixtures, which may set another seed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        if MARKER_FINDING not in item.stash:
            return
        from pytest_exportready.session.verdict import misdeclared, settle

        readiness = misdeclared(item, chosen_scenario(item) or DEFAULT_SCENARIO)
        item.stash[READINESS] = readiness = self._of(item, readiness)
        settle(readiness, CaseOptions())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, object, object]:
        known = self.in_ranks.get(report.nodeid)
        if known is not None and report.failed and not hasattr(report, "exportready"):
            report.exportready = without_verdict(report, *known).to_dict()  # type: ignore[attr-defined]
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

        if READINESS in pyfuncitem.stash:  # of an earlier attempt
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
        self._settle_cuda(item)
        if ranks is not None:
            if error is not None:
                ranks.leave()
            readiness = ranks.settle(readiness)
        if readiness is not None:
            readiness = item.stash[READINESS] = self._of(item, readiness)
        if error is not None:
            raise error
        assert readiness is not None
        settle(readiness, options, expect_failures=not self.config.getoption("runxfail", False))

    def _settle_cuda(self, item: pytest.Item) -> None:
        """Free what the case held on GPUs; if it ended CUDA in this process, let the other cases run in new ones."""
        from pytest_exportready.analysis.execution.machine_faults import free_gpu_memory
        from pytest_exportready.analysis.torch_internals.cuda import why_cuda_is_lost

        free_gpu_memory()
        if not in_rank(self.config) and why_cuda_is_lost():
            item.ihook.pytest_exportready_ranks_needed(session=item.session)
            items = item.session.items
            for later in items[items.index(item) + 1 :]:
                if later.nodeid not in self.in_ranks and run_in_ranks(later, DEFAULT_SCENARIO, 0, new_process=True):
                    self.in_ranks[later.nodeid] = chosen_scenario(later) or DEFAULT_SCENARIO, chosen_device(later)

    def _of(self, item: pytest.Item, readiness: Readiness) -> Readiness:
        """Return the readiness of ``item`` as reports show it: with its device, and files relative to the root."""
        return replace(readiness, device=chosen_device(item)).relative_to(self.config.rootpath)

    def _verdict(
        self, item: pytest.Function, options: CaseOptions, build: functools.partial[Any], ranks: Together | None
    ) -> tuple[Readiness | None, BaseException | None]:
        """Return the readiness of a case, and what was raised; no readiness for outcomes of pytest, such as a skip."""
        from pytest_exportready.session import verdict
        from pytest_exportready.session.export_hooks import ExportHooks

        chosen = chosen_scenario(item)
        name, scenario = item.nodeid, chosen or DEFAULT_SCENARIO
        if inspect.iscoroutinefunction(build.func) or inspect.isasyncgenfunction(build.func):
            message, fix = "The case function is async.", "Replace `async def` with `def`."
            declared = declared_at(item)
            return verdict.no_case(message, fix, name=name, scenario=scenario, declared=declared), None
        failed = verdict.raised
        try:
            returned = build()
            failed = verdict.crashed
            return verdict.judge_returned(
                returned,
                options,
                name=name,
                scenario=scenario,
                required=chosen is not None,
                declared=declared_at(item),
                watch=self._watch,
                on_export=ExportHooks(item.ihook, name),
                ranks=ranks,
                cache=self._cache,
                device=self._device(item),
                across="cpu" if is_gpu(chosen_device(item)) and "cpu" in self.devices.names(item) else "",
            ), None
        except verdict.PYTEST_OUTCOMES as error:
            return None, error
        except verdict.CASE_ERRORS as error:
            return failed(error, name=name, scenario=scenario), error

    def _watch(self, stage: str) -> None:
        if not in_rank(self.config):  # ranks have no terminal
            self.progress.stage(stage)

    def _device(self, item: pytest.Item) -> str:
        """Return the device of this process that the case is moved to; empty if it stays where it is built."""
        rank = current_rank(self.config)
        chosen = chosen_device(item)
        return rank.device if rank is not None and is_gpu(chosen) else chosen

    @functools.cached_property
    def _cache(self) -> ResultCache | None:
        """The stage results of earlier runs; None if the cache is off."""
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
            crash = getattr(report.longrepr, "reprcrash", None)
            if crash is not None:  # pytest repeats it in its own summary: all lines under CI or -vv, else the first
                crash.message = crash.message.partition("\n")[0]
        if call.when == "call" and TORCH_OUTPUT in item.stash:
            report.exportready_output = item.stash[TORCH_OUTPUT].getvalue()  # type: ignore[attr-defined]
            del item.stash[TORCH_OUTPUT]
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, Any, Any]:
        return plain_data((yield))
