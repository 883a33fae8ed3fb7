"""The legs of a matrix: runs of the same cases in different configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pytest_exportready.report.nightly.night import LEG, Night
from pytest_exportready.report.run import Run


def with_legs(nights: Iterable[Night]) -> list[Night]:
    """Return ``nights`` with the leg of every run.

    A leg is the label of a run, or the properties that distinguish it from other runs of the same cases in its night.
    Without such properties, nights have no legs.
    """
    nights = list(nights)
    keys = [key for key in _DISTINGUISHING if any(_distinguishes(key, night) for night in nights)]
    return [replace(night, legs=tuple(_name(run, keys) for run in night.runs)) for night in nights]


def _name(run: Run, keys: Iterable[str]) -> str:
    label = run.properties.get(LEG, "")
    return label or ", ".join(filter(None, (_value(key, run) for key in keys)))


def _distinguishes(key: str, night: Night) -> bool:
    """Return whether two runs of ``night`` have the same case with different values of ``key``."""
    seen: dict[str, str] = {}
    for run in night.runs:
        if LEG in run.properties:
            continue
        value = _value(key, run)
        if any(seen.setdefault(result.nodeid, value) != value for result in run.results):
            return True
    return False


def _value(key: str, run: Run) -> str:
    return _DISTINGUISHING[key](run.properties.get(key, ""))


def channel(torch: str) -> str:
    """Return ``nightly``, or the release such as ``2.15``: the same for the torch of the next night."""
    if "dev" in torch:
        return "nightly"
    release = re.match(r"\d+\.\d+", torch)
    return release[0] if release else ""


_DISTINGUISHING: Mapping[str, Callable[[str], str]] = {
    "gpu": str,
    "torch": lambda version: f"torch {channel(version)}",
    "python": lambda version: f"Python {'.'.join(version.split('.')[:2])}",
}
"""Properties that make a leg, and the part of its name that each gives."""
