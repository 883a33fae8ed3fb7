"""Whose a new failure is: torch's, yours, or that of what is around both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_exportready.report.cause import Cause
from pytest_exportready.report.nightly.environment_diff import Kind, Moved, moved
from pytest_exportready.report.nightly.observation import Observation

Whose = Literal["torch", "yours", "environment", "undecided"]
_Changes = Mapping[Kind, tuple[Moved, ...]]


@dataclass(frozen=True)
class Arm:
    """The same case under another torch. environment: the properties of its run. seen: None where it has no result."""

    environment: Mapping[str, str]
    seen: Observation | None

    @property
    def torch(self) -> str:
        return self.environment.get("torch", "another torch")

    def controls(self, tonight: Mapping[str, str]) -> bool:
        """Whether it says something: it has a verdict, on tonight's commit, under a torch that is not tonight's."""
        commit, other = self.environment.get("commit"), tonight.get("commit")
        same_commit = commit == other or not (commit and other)
        same_torch = self.environment.get("torch") == tonight.get("torch")
        return self.seen is not None and self.seen.judged and same_commit and not same_torch

    def fails(self, causes: Sequence[Cause]) -> bool | None:
        """Whether it fails at a stage of ``causes``, which another torch may word otherwise; None: at another."""
        if self.seen is None or not self.seen.failing:
            return False
        stages = {cause.stage for cause in causes}
        return True if any(cause.stage in stages for cause in self.seen.causes) else None


@dataclass(frozen=True)
class Attribution:
    """whose: see Whose. because: in a few words. moved: what of that kind moved."""

    whose: Whose
    because: str
    moved: tuple[Moved, ...] = ()


def attribute(
    causes: Sequence[Cause], was: Mapping[str, str] | None, now: Mapping[str, str], arms: Iterable[Arm | None] = ()
) -> Attribution:
    """Whose ``causes`` are. was, now: properties of the night before and of tonight; ``was`` is None for a case that
    was never seen before. arms: tonight's commit under the last good nightly, then under a release; the first that has
    a verdict counts.

    Fails tonight only: torch. Fails there too: yours. Neither of them moved: environment.
    Where torch and the commit both moved and no arm ran: undecided.
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
    told = f"the same commit {'fails' if fails else 'passes'} on {torch}{' too' if fails else ''}"
    yours = of["yours"] or is_new or not commit_known
    if not fails and (of["torch"] or is_new):
        return Attribution("torch", told, of["torch"])
    if yours:
        return Attribution("yours", told if fails else f"{told}, and torch did not move", of["yours"])
    if fails and of["torch"] and not of["environment"]:
        return Attribution("torch", f"{told}, and nothing but torch moved", of["torch"])
    return Attribution("environment", f"{told}, and your commit did not move", of["environment"])


def _by_what_moved(is_new: bool, of: _Changes) -> Attribution:
    if is_new:
        return Attribution("yours", "the case is new")
    kinds = [kind for kind, changes in of.items() if changes]
    if len(kinds) > 1:
        everything = tuple(one for changes in of.values() for one in changes)
        return Attribution("undecided", f"{' and '.join(kinds)} moved, and no other torch was run", everything)
    if not kinds:
        return Attribution("environment", "nothing that is recorded moved")
    names: dict[Kind, str] = {"torch": "torch", "yours": "your commit", "environment": "the environment"}
    return Attribution(kinds[0], f"nothing but {names[kinds[0]]} moved", of[kinds[0]])
