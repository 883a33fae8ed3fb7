"""Cache the results of the stages after an export, and what they compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_exportready.analysis.execution.trial import NotCacheable, StageRecord, Trial
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.judge.cache.key import artifact_key, verdict_key
from pytest_exportready.judge.cache.store import LARGEST, Store


class CachedResults:
    """A ResultCache in a folder.

    Args:
        largest: Bytes of all entries together.
        read_only: Use results, but do not save any.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, *, read_only: bool = False) -> None:
        self._problems: list[str] = []
        self._store, self._read_only = Store(folder, largest, self._problems.append), read_only
        self._loaded: tuple[Trial, str] | None = None

    def problems(self) -> list[str]:
        problems, self._problems[:] = list(self._problems), []
        return problems

    def load(self, trial: Trial) -> Mapping[str, StageRecord]:
        self._loaded = trial, f"{verdict_key(trial)}.json"
        held = self._store.get(self._loaded[1])
        try:
            entry = json.loads(held or b"{}")
            return {name: _record(entry["proved at"], stage) for name, stage in entry.get("stages", {}).items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}  # written by another version

    def save(self, trial: Trial, records: Mapping[str, StageRecord]) -> None:
        if self._read_only or self._loaded is None or self._loaded[0] is not trial:
            return
        stages = {
            name: {"result": asdict(result), "findings": [finding.to_dict() for finding in findings]}
            for name, (result, findings) in records.items()
        }
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self._store.put(self._loaded[1], json.dumps({"proved at": now, "stages": stages}).encode())

    def load_artifact(self, trial: Trial, stage: str) -> bytes | None:
        name = _artifact_name(trial, stage)
        return self._store.get(name) if name else None

    def save_artifact(self, trial: Trial, stage: str, content: bytes) -> None:
        name = "" if self._read_only else _artifact_name(trial, stage)
        if name:
            self._store.put(name, content)


def _artifact_name(trial: Trial, stage: str) -> str:
    """Return the name of an entry; empty if the program cannot be compared with another."""
    try:
        return f"{artifact_key(trial, stage)}.{stage}"
    except NotCacheable:
        return ""


def _record(when: str, held: Mapping[str, Any]) -> StageRecord:
    result = StageResult(**held["result"])
    reason = f"cached {when}: {result.reason}" if result.reason else f"cached {when}"
    findings = tuple(Finding.from_dict(finding) for finding in held["findings"])
    return replace(result, seconds=0.0, reason=reason, cached=when), findings
