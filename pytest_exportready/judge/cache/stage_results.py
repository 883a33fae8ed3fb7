"""Results of the stages behind an export, and what they compiled, found again when what they depend on is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.judge.cache.key import artifact_key, verdict_key
from pytest_exportready.judge.cache.store import LARGEST, Store
from pytest_exportready.stages._stage import Proved, Trial, Unremembered


class Verdicts:
    """The memory that ``runner.judge`` asks before it proves anything about a program, and tells afterwards.

    folder, largest: as for Store. keep: False for one that is read only.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, keep: bool = True) -> None:
        self._problems: list[str] = []
        self._store, self._keeps = Store(folder, largest, self._problems.append), keep
        self._asked: tuple[Trial, str] | None = None

    def problems(self) -> list[str]:
        told, self._problems[:] = list(self._problems), []
        return told

    def recall(self, trial: Trial) -> Mapping[str, Proved]:
        self._asked = trial, f"{verdict_key(trial)}.json"
        held = self._store.get(self._asked[1])
        try:
            entry = json.loads(held or b"{}")
            return {name: _proved(entry["proved at"], stage) for name, stage in entry.get("stages", {}).items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}  # of a version that wrote it otherwise

    def keep(self, trial: Trial, proved: Mapping[str, Proved]) -> None:
        if not self._keeps or self._asked is None or self._asked[0] is not trial:
            return
        stages = {
            name: {"result": asdict(result), "findings": [finding.to_dict() for finding in findings]}
            for name, (result, findings) in proved.items()
        }
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self._store.put(self._asked[1], json.dumps({"proved at": now, "stages": stages}).encode())

    def artifact(self, trial: Trial, stage: str) -> bytes | None:
        name = _artifact_name(trial, stage)
        return self._store.get(name) if name else None

    def keep_artifact(self, trial: Trial, stage: str, content: bytes) -> None:
        name = _artifact_name(trial, stage) if self._keeps else ""
        if name:
            self._store.put(name, content)


def _artifact_name(trial: Trial, stage: str) -> str:
    """Empty for a program of which nothing compiled can be told from another's."""
    try:
        return f"{artifact_key(trial, stage)}.{stage}"
    except Unremembered:
        return ""


def _proved(when: str, held: Mapping[str, Any]) -> Proved:
    result = StageResult(**held["result"])
    reason = f"from the cache, proved {when}" + f": {result.reason}" * bool(result.reason)
    findings = tuple(Finding.from_dict(finding) for finding in held["findings"])
    return replace(result, seconds=0.0, reason=reason, cached=when), findings
