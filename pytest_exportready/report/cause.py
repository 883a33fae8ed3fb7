"""The cause of a failure, equal for every case, night and machine that it affects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pytest_exportready.case.finding import Finding
from pytest_exportready.report.run import TestResult

_EXCEPTION = re.compile(r"\b(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Warning))\b")

_ID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_HASH = r"(?<![\w.])(?=[0-9a-f]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}(?!\w)"
_RANDOM = r"tmp[a-z0-9_]{8}"
_PATH = (
    r"(?<![\w.:/])(?:/[\w.+@~-]+){2,}/?|\b[A-Za-z]:\\[\w.+@~\\-]+"
    rf"|(?<![\w/]){_RANDOM}(?:\.[A-Za-z]\w{{0,7}})?(?!\w)"
)
_SIZE = r"-?\d+|[suf]\d+|zu?f\d+"
_SHAPE = rf"torch\.Size\([^()]*\)|[\[(](?:{_SIZE}),(?: ?(?:{_SIZE}),)* ?(?:{_SIZE})?[\])]|\b\d+(?:x\d+)+\b"
_VERSION = r"\b\d+\.\d+\.\d+[\w.]*(?:\+[\w.]*\w)?(?!\w)"
_NUMBER = r"(?<!\w)\d+(?:\.\d+)?(?:e[-+]?\d+)?(?=(?:[munk]?s|min|h|[KMGT]i?B|B|x)?(?!\w))"
_OPERATOR = r"\b(?:aten|prims|torch\.ops|[A-Za-z_]\w*:)[.:]\w[\w.:]*|\bsm_\d+\b"
_NODE = r"\b[A-Za-z_]\w*_\d+(?:_\w*)?|\b(?:[su]|zu?f)\d+(?!\w)"
_VARYING = re.compile(
    "|".join(
        f"(?P<{kind}>{pattern})"
        for kind, pattern in {
            "id": _ID,
            "address": r"\b0x[0-9a-fA-F]+",
            "path": _PATH,
            "shape": _SHAPE,
            "version": _VERSION,
            "hash": _HASH,
            "operator": _OPERATOR,
            "node": _NODE,
            "number": _NUMBER,
        }.items()
    )
)
_TEMPORARY = re.compile(rf"(?:^|/)(?:tmp|temp|pytest-of-[^/]*|var/folders)(?:/|$)|(?:^|[/\\]){_RANDOM}", re.IGNORECASE)
_RANDOM_NAME = re.compile(rf"{_RANDOM}|[^.]*\d{{5,}}[^.]*")


@dataclass(frozen=True)
class FailureCause:
    """What fails and where, without the parts that vary between models and runs."""

    stage: str  # empty outside any stage
    what: str  # the code of the finding (ER402) or the name of the exception; empty when neither is known
    message: str  # normalized
    frame: str = ""  # the user's source file; empty when it is not known

    def __str__(self) -> str:
        place = " in ".join(part for part in (self.what, self.frame) if part)
        return ": ".join(part for part in (self.stage, place, self.message) if part)


def cause_of(result: TestResult) -> FailureCause | None:
    """Return the first cause of a result that failed or is inconclusive; None for any other."""
    return next(iter(causes_of(result)), None)


def causes_of(result: TestResult) -> tuple[FailureCause, ...]:
    """Return every cause of a result that failed (also as expected) or is inconclusive."""
    if result.outcome not in ("failed", "xfailed", "infra"):
        return ()
    record = result.readiness
    found = [of_finding(finding) for finding in record.errors] if record else []
    reported = {cause.stage for cause in found}
    for stage in record.stages if record else ():
        if stage.outcome in ("failed", "infra") and stage.name not in reported:
            found.append(_of_text(stage.name, stage.reason or result.message))
    return tuple(dict.fromkeys(found)) or (_of_text("", result.message),)


def causes(results: Iterable[TestResult]) -> list[tuple[FailureCause, tuple[TestResult, ...]]]:
    """Return every cause with the results that it affects, the most frequent first."""
    hit: dict[FailureCause, list[TestResult]] = {}
    for result in results:
        for cause in causes_of(result) if result.outcome != "xfailed" else ():
            hit.setdefault(cause, []).append(result)
    return sorted(((cause, tuple(those)) for cause, those in hit.items()), key=lambda one: -len(one[1]))


@lru_cache(maxsize=4096)
def normalized(message: str) -> str:
    """Return ``message`` without numbers, addresses, hashes, shapes, identifiers and temporary or absolute paths.

    Operators and dtypes keep their digits, as in ``aten.conv2d`` and ``float16``.
    """
    return " ".join(_VARYING.sub(_stand_in, message).split())


def of_finding(finding: Finding) -> FailureCause:
    """Return the cause that a finding describes."""
    return FailureCause(finding.stage, finding.code, normalized(finding.problem), _frame(finding.file))


def _of_text(stage: str, message: str) -> FailureCause:
    named = _EXCEPTION.search(message)
    return FailureCause(stage, named[1] if named else "", normalized(message))


def _frame(file: str) -> str:
    return normalized(file) if file.startswith("/") or "\\" in file else file


def _stand_in(found: re.Match[str]) -> str:
    kind, text = found.lastgroup or "", found[0]
    if kind == "operator":
        return text
    if kind == "node":
        return re.sub(r"(?<=_)\d+(?=_|$)|(?<=^arg)\d+|(?<=^[su])\d+|(?<=f)\d+$", "N", text)
    if kind == "path":
        return _path(text)
    return "N" if kind == "number" else f"<{kind}>"


def _path(text: str) -> str:
    """Return the last part of a path, or nothing of it where that is random too."""
    name = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    if _TEMPORARY.search(text) and ("." not in name or _RANDOM_NAME.match(name)):
        ending = name.rpartition(".")[1:] if "." in name else ("", "")
        return f"<temporary>{''.join(ending)}"
    return f"<path>/{name}"
