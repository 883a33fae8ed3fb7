"""The legs of a matrix: which runs of a night are the same cases in another configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pytest_exportready.report.nightly.night import LEG, Night
from pytest_exportready.report.run import Run


def with_legs(nights: Iterable[Night]) -> list[Night]:
    """``nights`` with the leg of every run: the label that it carries, or else what tells it from the other runs of its
    night that hold the same cases. Where nothing does, nights have no legs.
    """
    nights = list(nights)
    telling = [key for key in _TELLING if any(_tells(key, night) for night in nights)]
    return [replace(night, legs=tuple(_name(run, telling) for run in night.runs)) for night in nights]


def _name(run: Run, telling: Iterable[str]) -> str:
    label = run.properties.get(LEG, "")
    return label or ", ".join(filter(None, (_value(key, run) for key in telling)))


def _tells(key: str, night: Night) -> bool:
    """Whether two runs of ``night`` hold the same case under different values of ``key``."""
    seen: dict[str, str] = {}
    for run in night.runs:
        if LEG in run.properties:
            continue
        value = _value(key, run)
        if any(seen.setdefault(result.nodeid, value) != value for result in run.results):
            return True
    return False


def _value(key: str, run: Run) -> str:
    return _TELLING[key](run.properties.get(key, ""))


def channel(torch: str) -> str:
    """``nightly``, or the release as in ``2.15``: what a night's torch is called the night after, too."""
    if "dev" in torch:
        return "nightly"
    release = re.match(r"\d+\.\d+", torch)
    return release[0] if release else ""


_TELLING: Mapping[str, Callable[[str], str]] = {
    "gpu": str,
    "torch": lambda version: f"torch {channel(version)}",
    "python": lambda version: f"Python {'.'.join(version.split('.')[:2])}",
}
"""Properties that make a leg, and how a leg is called by them."""
