"""Results of the stages behind an export, found again when nothing that they depend on has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_exportready.cache.key import verdict_key
from pytest_exportready.cache.store import LARGEST, Store
from pytest_exportready.finding import Finding
from pytest_exportready.readiness import StageResult
from pytest_exportready.stage import Proved, Trial


class Verdicts:
    """The memory that ``runner.judge`` asks before it proves anything about a program, and tells afterwards.

    folder, largest: as for Store. keep: False for one that is read only.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, keep: bool = True) -> None:
        self._problems: list[str] = []
        self._store, self._keeps = Store(folder, largest, self._problems.append), keep

    def problems(self) -> list[str]:
        told, self._problems[:] = list(self._problems), []
        return told

    def recall(self, trial: Trial) -> Mapping[str, Proved]:
        entry = self._store.get(self._key(trial))
        if entry is None:
            return {}
        try:
            return {name: _proved(entry["proved at"], held) for name, held in entry["stages"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}  # of a version that wrote it otherwise

    def keep(self, trial: Trial, proved: Mapping[str, Proved]) -> None:
        if not self._keeps:
            return
        stages = {
            name: {"result": asdict(result), "findings": [finding.to_dict() for finding in findings]}
            for name, (result, findings) in proved.items()
        }
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self._store.put(self._key(trial), {"proved at": now, "stages": stages})

    def _key(self, trial: Trial) -> str:
        assert trial.program is not None
        return verdict_key(trial.case, trial.options, trial.program, trial.mode)


def _proved(when: str, held: Mapping[str, Any]) -> Proved:
    result = StageResult(**held["result"])
    reason = f"from the cache, proved {when}" + f": {result.reason}" * bool(result.reason)
    findings = tuple(Finding.from_dict(finding) for finding in held["findings"])
    return replace(result, seconds=0.0, reason=reason, cached=when), findings
