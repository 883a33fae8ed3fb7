"""Limits on what a report holds, and the cleaning that makes foreign text safe to write anywhere.

The sizes are those that CI services accept: long names, messages and logs make them drop a file or cut it
where it hurts, so the cutting is done here, head and tail kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from pytest_exportready.finding import Finding
from pytest_exportready.readiness import Readiness, StageResult
from pytest_exportready.text import plain

NAME_LIMIT = 1_000
MESSAGE_LIMIT = 500
TEXT_LIMIT = 64 * 1024
RECORD_LIMIT = 64 * 1024
FACT_LIMIT = 2_000
DEPTH_LIMIT = 8


def line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """``text`` in one clean line of at most ``limit`` characters."""
    clean = " ".join(plain(text[: 10 * limit]).split())
    if len(clean) <= limit:
        return clean
    tail = limit // 4
    return f"{clean[: limit - tail - 5].rstrip()} ... {clean[-tail:].lstrip()}"


def block(text: str, limit: int = TEXT_LIMIT) -> str:
    """Clean text of several lines; a longer one keeps its head and tail and says how much is left out."""
    if len(text) > 4 * limit:
        text, gone = text[: 2 * limit] + text[-2 * limit :], len(text) - 4 * limit
    else:
        gone = 0
    clean = plain(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not gone and len(clean) <= limit:
        return clean
    tail = limit // 4
    head = limit - tail - 60
    note = f"\n... {gone + len(clean) - head - tail} characters left out ...\n"
    return clean[:head] + note + clean[-tail:]


def name(text: str, limit: int = NAME_LIMIT) -> str:
    """A clean name; one that had to be changed ends in a digest of the original, so that it stays unique."""
    clean = plain(text)
    if clean == text and "\r" not in text and len(text) <= limit:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain(clean.replace(chr(13), ' '), limit - 11)}~{digest}"


def seconds(value: float) -> float:
    """Three decimals, never negative, infinite or in exponent notation."""
    return round(min(max(value, 0.0), 1e9), 3) if math.isfinite(value) else 0.0


def plain_json(value: Any, depth: int = 0) -> Any:
    """``value`` as finite, clean JSON data that reads back equal."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else plain(hex(value), 100)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (Mapping, list, tuple)) and depth == DEPTH_LIMIT:
        return "..."
    if isinstance(value, Mapping):
        return {plain(str(key), 200): plain_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item, depth + 1) for item in value]
    return block(str(value), FACT_LIMIT)


def compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def fitted(readiness: Readiness) -> tuple[Readiness, int]:
    """``readiness`` cleaned and within RECORD_LIMIT, and how many of its last findings had to be left out."""
    clean = replace(
        readiness,
        case=name(readiness.case),
        scenario=name(readiness.scenario, 200),
        stages=tuple(_clean_stage(stage) for stage in readiness.stages),
        findings=tuple(_clean_finding(finding) for finding in readiness.findings),
        checked=tuple((line(code, 50), line(title, 200)) for code, title in readiness.checked),
        prepared=tuple(line(step) for step in readiness.prepared),
        seconds=seconds(readiness.seconds),
    )
    if len(compact(clean.to_dict())) <= RECORD_LIMIT:
        return clean, 0
    bare = replace(clean, findings=())
    if len(compact(bare.to_dict())) > RECORD_LIMIT // 2:
        note = {"left out": "too large for a report"}
        stages = tuple(replace(stage, facts=note if stage.facts else {}) for stage in bare.stages[:100])
        bare = replace(bare, stages=stages, prepared=bare.prepared[:20], checked=bare.checked[:100])
    room = RECORD_LIMIT - len(compact(bare.to_dict())) - 100
    kept: list[Finding] = []
    for finding in clean.findings:
        room -= len(compact(finding.to_dict())) + 1
        if room < 0:
            break
        kept.append(finding)
    return replace(bare, findings=tuple(kept)), len(clean.findings) - len(kept)


def _clean_stage(stage: StageResult) -> StageResult:
    return StageResult(
        name=name(stage.name, 100),
        outcome=stage.outcome,
        seconds=seconds(stage.seconds),
        mode=line(stage.mode, 100),
        reason=line(stage.reason),
        facts=plain_json(stage.facts),
    )


def _clean_finding(finding: Finding) -> Finding:
    return replace(
        finding,
        code=line(finding.code, 50),
        name=line(finding.name, 200),
        stage=name(finding.stage, 100),
        ignored=line(finding.ignored),
    )
