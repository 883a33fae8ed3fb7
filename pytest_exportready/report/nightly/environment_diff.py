"""The properties that changed between two nights: torch, your commit, or the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["torch", "yours", "environment"]

_HASH = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")
_NIGHTLY = re.compile(r"(?P<release>\d[\d.]*)\.(?P<build>dev\d+)(?:\+\w+)?")
_LABELS = ("exportready.", "shard", "channel")
"""Prefixes of properties that name a run and do not describe its environment."""


@dataclass(frozen=True)
class Moved:
    """A property that changed."""

    kind: Kind
    name: str
    was: str  # empty where it was not recorded
    now: str

    def __str__(self) -> str:
        was, now = self.was or "(not recorded)", self.now or "(not recorded)"
        nightly = _NIGHTLY.fullmatch(was), _NIGHTLY.fullmatch(now)
        if nightly[0] and nightly[1] and nightly[0]["release"] == nightly[1]["release"]:
            was, now = nightly[0][0].partition("+")[0], nightly[1]["build"]
        return f"{self.name} {short(was)} -> {short(now)}"


def moved(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[Moved, ...]:
    """Return every property that differs, torch and the user's commit first."""
    return tuple(sorted(_moved(was, now), key=lambda one: ("torch", "yours", "environment").index(one.kind)))


def _moved(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Moved]:
    for name in dict.fromkeys((*now, *was)):
        before, after = was.get(name, ""), now.get(name, "")
        if before != after and not name.startswith(_LABELS):
            yield Moved(_kind(name), name, before, after)


def _kind(name: str) -> Kind:
    if name.partition(".")[0] == "torch":  # and torch.git_version, torch.planned
        return "torch"
    return "yours" if name == "commit" else "environment"


def short(value: str) -> str:
    """Return ``value`` with hashes cut to their first ten digits."""
    return _HASH.sub(r"\1", value)
