"""Write a Readiness as the JSON text of a JUnit property, and read it back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.case.sanitize import json_safe
from pytest_exportready.report import truncate
from pytest_exportready.report.typed_json import built, known, value

RECORD_LIMIT = 64 * 1024
REPRODUCER_LIMIT = 16 * 1024

_CLASSES = (Readiness, StageResult, Finding)
_DEFAULTS = {cls: tuple((field.name, field.default) for field in fields(cls)) for cls in _CLASSES}

_QUOTES = str.maketrans("\"'", "'\"")
"""An XML attribute writes each double quote as six characters, so JSON is written with single ones."""


def to_text(readiness: Readiness) -> str:
    """Return compact JSON with single and double quotes exchanged, without fields that have their default."""
    parts = {key: [_lean(part) for part in getattr(readiness, key)] for key in ("stages", "findings")}
    return _compact({**_lean(readiness), **parts}).translate(_QUOTES)


def from_text(text: str) -> Readiness:
    """Return the record in ``text``, which may have its quotes exchanged.

    Raises:
        ValueError: It is not such a record.
    """
    try:
        data = json.loads(text if text.startswith('{"') else text.translate(_QUOTES))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    data = known(Readiness, value(data, dict, "the record"))
    stages = [built(StageResult, known(StageResult, stage)) for stage in value(data.get("stages", []), list, "stages")]
    findings = [_finding(finding) for finding in value(data.get("findings", []), list, "findings")]
    return built(Readiness, {**data, "stages": stages, "findings": findings})


def _finding(data: Any) -> Finding:
    """Return a finding, also of an earlier version, which called a note info."""
    data = known(Finding, value(data, dict, "a finding"))
    return built(Finding, {**data, "severity": "note"} if data.get("severity") == "info" else data)


def checked_from_text(text: str) -> tuple[tuple[str, str], ...]:
    """Return ``Readiness.checked`` of its JSON.

    Raises:
        ValueError: It is not a list of pairs.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    checked: tuple[tuple[str, str], ...] = value(data, tuple[tuple[str, str], ...], "checked")
    return checked


def fitted(readiness: Readiness) -> tuple[Readiness, int]:
    """Return ``readiness`` cleaned and within RECORD_LIMIT, and how many of its last findings do not fit."""
    script, why_not = _clean_reproducer(readiness)
    clean = replace(
        readiness,
        case=truncate.name(readiness.case),
        scenario=truncate.name(readiness.scenario, 200),
        stages=tuple(_clean_stage(stage) for stage in readiness.stages),
        findings=tuple(_clean_finding(finding) for finding in readiness.findings),
        checked=_clean_checked(readiness.checked),
        prepared=tuple(truncate.line(step) for step in readiness.prepared),
        seconds=truncate.seconds(readiness.seconds),
        reproducer=script,
        no_reproducer=why_not,
    )
    if _at_most(clean) <= RECORD_LIMIT or len(to_text(clean)) <= RECORD_LIMIT:
        return clean, 0
    bare = replace(clean, findings=())
    if len(to_text(bare)) > RECORD_LIMIT // 2:
        note = {"left out": "too large for a report"}
        stages = tuple(replace(stage, facts=note if stage.facts else {}) for stage in bare.stages[:100])
        bare = replace(bare, stages=stages, prepared=bare.prepared[:20], checked=bare.checked[:100])
    room = RECORD_LIMIT - len(to_text(bare))
    kept: list[Finding] = []
    for finding in clean.findings:
        room -= len(_compact(_lean(finding))) + 1
        if room < 0:
            break
        kept.append(finding)
    return replace(bare, findings=tuple(kept)), len(clean.findings) - len(kept)


def _at_most(clean: Readiness) -> int:
    """Return an upper bound of the length of ``to_text``; more than RECORD_LIMIT when it is not known."""
    numbers = (int, float, bool, type(None))
    if not all(type(value) in numbers for stage in clean.stages for value in stage.facts.values()):
        return RECORD_LIMIT + 1
    texts = [clean.case, clean.scenario, clean.reproducer, clean.no_reproducer, *clean.prepared]
    for finding in clean.findings:
        texts += (finding.where, finding.message, finding.fix, finding.file, finding.patch)
        texts += (finding.name, finding.stage, finding.ignored, finding.torch_says)
    for stage in clean.stages:
        texts += (stage.name, stage.reason, *stage.facts)
    facts = sum(len(stage.facts) for stage in clean.stages)
    parts = 400 * (1 + len(clean.stages) + len(clean.findings) + len(clean.checked)) + 40 * facts
    return parts + 2 * sum(map(len, texts)) + 2 * _length(clean.checked)  # a quote or backslash is two characters


@lru_cache(maxsize=256)
def _length(checked: tuple[tuple[str, str], ...]) -> int:
    return sum(len(code) + len(title) for code, title in checked)


@lru_cache(maxsize=256)
def _clean_checked(checked: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((truncate.line(code, 50), truncate.line(title, 200)) for code, title in checked)


def _clean_reproducer(readiness: Readiness) -> tuple[str, str]:
    """Return the script, or why there is none: half a file reproduces nothing."""
    if len(readiness.reproducer) > REPRODUCER_LIMIT:
        return "", "it is too long for a report"
    return truncate.block(readiness.reproducer, REPRODUCER_LIMIT), truncate.line(readiness.no_reproducer)


def _clean_stage(stage: StageResult) -> StageResult:
    name, mode, cached = _clean_words(stage.name, stage.mode, stage.cached)
    return StageResult(
        name=name,
        outcome=stage.outcome,
        seconds=truncate.seconds(stage.seconds),
        mode=mode,
        reason=truncate.line(stage.reason),
        facts=json_safe(stage.facts),
        cached=cached,
    )


@lru_cache(maxsize=256)
def _clean_words(name: str, mode: str, cached: str) -> tuple[str, str, str]:
    """Clean the texts that many cases share."""
    return truncate.name(name, 100), truncate.line(mode, 100), truncate.line(cached, 100)


def _clean_finding(finding: Finding) -> Finding:
    return replace(
        finding,
        code=truncate.line(finding.code, 50),
        name=truncate.line(finding.name, 200),
        stage=truncate.name(finding.stage, 100),
        ignored=truncate.line(finding.ignored),
    )


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _lean(part: Readiness | StageResult | Finding) -> dict[str, Any]:
    values = vars(part)
    return {
        name: value
        for name, default in _DEFAULTS[type(part)]
        if (value := values[name]) != default and value != {} and value != ()
    }
