"""A stage loop that reuses results of an earlier run of the same program with the same dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_exportready.analysis.execution.trial import NotCacheable, ResultCache, StageRecord, Trial
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.judge.stage_loop import StageLoop, Stages

NOT_CACHED = Rule(
    "ER105",
    "case_can_be_cached",
    """The results of a case can be cached and reused.

    Why it matters:
        With `--export-ready-cache`, stages after the export are skipped if nothing has changed. A case runs in full if
        something in it cannot be compared with an earlier run: an input, or an attribute of a module, whose class
        cannot be pickled.

    Severity:
        warning: the cache folder cannot be read or written, or has a corrupt entry.
        note: the results of this case are not cached.
    """,
)


@dataclass
class CachedStages(StageLoop):
    """A StageLoop with a cache."""

    cache: ResultCache = field(kw_only=True)

    def run_cacheable(self, stages: Stages, wanted: set[str], trial: Trial) -> None:
        if trial.program is None or not self.all_passed:
            self.run_block(stages, wanted, trial)
            return
        self.watch("cache")
        try:
            known = self.cache.load(trial)
        except NotCacheable as reason:
            self.add(NOT_CACHED.note("", f"The results of this case are not cached: {reason}.", stage="export"), trial)
            self.run_block(stages, wanted, trial)
        else:
            if known.keys() == stages.keys():
                self._reuse(known, trial)
            else:
                self._prove(stages, wanted, trial)
        for problem in self.cache.problems():
            fix = "Delete the cache folder if this persists."
            self.add(NOT_CACHED.warning("", problem, fix, stage="export"), trial)

    def _reuse(self, known: Mapping[str, StageRecord], trial: Trial) -> None:
        for result, findings in known.values():
            self.results.append(result)
            trial.results[result.name] = result
            for finding in findings:
                self.add(finding, trial)

    def _prove(self, stages: Stages, wanted: set[str], trial: Trial) -> None:
        had, found = len(self.results), len(self.findings)
        self.run_block(stages, wanted, trial)
        new, findings = self.results[had:], self.findings[found:]
        if all(self._lasts(result) for result in new):
            records = {r.name: (r, tuple(f for f in findings if f.stage == r.name)) for r in new}
            self.cache.save(trial, records)

    def _lasts(self, result: StageResult) -> bool:
        """Return whether another run on this machine would have the same result."""
        missing = (result.name, result.mode) in self.missing_tools
        return result.outcome == "passed" or (result.outcome == "skipped" and not missing)
