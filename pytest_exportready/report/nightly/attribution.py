"""Attribute a new failure to torch, to your repository, or to the environment of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.environment_diff import Kind, Moved, moved
from pytest_exportready.report.nightly.observation import Observation

Whose = Literal["torch", "yours", "environment", "undecided"]
_Changes = Mapping[Kind, tuple[Moved, ...]]


@dataclass(frozen=True)
class Arm:
    """The same case under another torch."""

    environment: Mapping[str, str]  # the properties of its run
    seen: Observation | None  # None where it has no result

    @property
    def torch(self) -> str:
        return self.environment.get("torch", "another torch")

    def controls(self, tonight: Mapping[str, str]) -> bool:
        """Whether it can serve as control: a verdict on the same commit as tonight, under another torch."""
        commit, other = self.environment.get("commit"), tonight.get("commit")
        same_commit = commit == other or not (commit and other)
        same_torch = self.environment.get("torch") == tonight.get("torch")
        return self.seen is not None and self.seen.judged and same_commit and not same_torch

    def fails(self, causes: Sequence[FailureCause]) -> bool | None:
        """Return whether it fails at a stage of ``causes``, with any message; None if it fails at another stage."""
        if self.seen is None or not self.seen.failing:
            return False
        stages = {cause.stage for cause in causes}
        return True if any(cause.stage in stages for cause in self.seen.causes) else None


@dataclass(frozen=True)
class Attribution:
    """What a failure is due to."""

    whose: Whose
    because: str  # in a few words
    moved: tuple[Moved, ...] = ()  # the changes of that kind


def attribute(
    causes: Sequence[FailureCause],
    was: Mapping[str, str] | None,
    now: Mapping[str, str],
    arms: Iterable[Arm | None] = (),
) -> Attribution:
    """Return what ``causes`` are due to.

    Fails tonight only: torch. Fails there too: yours. Neither of them changed: environment. Torch and the commit both
    changed and no arm ran: undecided.

    Args:
        was: Properties of the previous night; None for a case that had no verdict before.
        now: Properties of tonight.
        arms: Tonight's commit under the last good nightly, then under a release. The first with a verdict counts.
    """
    changes = moved(was, now) if was is not None else ()
    of: _Changes = {
        kind: tuple(one for one in changes if one.kind == kind) for kind in ("torch", "yours", "environment")
    }
    for arm in arms:
        fails = arm.fails(causes) if arm is not None and arm.controls(now) else None
        if arm is not None and fails is not None:
            return _by_arm(fails, arm.torch, was is None, of, bool(now.get("commit")))
    return _by_what_moved(was is None, of)


def _by_arm(fails: bool, torch: str, is_new: bool, of: _Changes, commit_known: bool) -> Attribution:
    evidence = f"the same commit also fails on {torch}" if fails else f"the same commit passes on {torch}"
    yours = of["yours"] or is_new or not commit_known
    if not fails and (of["torch"] or is_new):
        return Attribution("torch", evidence, of["torch"])
    if yours:
        return Attribution("yours", evidence if fails else f"{evidence}, and torch did not change", of["yours"])
    if fails and of["torch"] and not of["environment"]:
        return Attribution("torch", f"{evidence}, and only torch changed", of["torch"])
    return Attribution("environment", f"{evidence}, and your commit did not change", of["environment"])


def _by_what_moved(is_new: bool, of: _Changes) -> Attribution:
    if is_new:
        return Attribution("yours", "the case is new")
    kinds = [kind for kind, changes in of.items() if changes]
    if len(kinds) > 1:
        everything = tuple(one for changes in of.values() for one in changes)
        return Attribution("undecided", f"{' and '.join(kinds)} changed, and no other torch was run", everything)
    if not kinds:
        return Attribution("environment", "no recorded property changed")
    names: dict[Kind, str] = {"torch": "torch", "yours": "your commit", "environment": "the environment"}
    return Attribution(kinds[0], f"only {names[kinds[0]]} changed", of[kinds[0]])
