"""Check the arguments of the marker ``export_ready``."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeGuard

from pytest_exportready.case.devices import ACCEPTED as ACCEPTED_DEVICES, is_device
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.sanitize import shown

Mode = Literal["non-strict", "strict"]
MODES: dict[str, tuple[Mode, ...]] = {
    "non-strict": ("non-strict",),
    "strict": ("strict",),
    "both": ("non-strict", "strict"),
}


@dataclass(frozen=True)
class CaseOptions:
    """The checked arguments of the marker; the defaults are those of ``@export_ready()``."""

    dynamic_batch: bool = False
    dynamic_shapes: Any = None
    scenarios: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ("non-strict",)
    rtol: float | None = None
    atol: float | None = None
    stages: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    reason: str = ""
    xfail_stage: str = ""
    lower: tuple[str, ...] = ()
    budget: Mapping[str, float] = field(default_factory=dict)


BUDGETS = ("seconds", "mib", "nodes", "gpu_mib")

ACCEPTED = (
    "dynamic_batch",
    "dynamic_shapes",
    "scenarios",
    "strict",
    "tolerance",
    "stages",
    "ignore",
    "reason",
    "xfail_stage",
    "lower",
    "budget",
    "devices",
)


class StageTraits(Protocol):
    """The part of a stage that the options depend on."""

    @property
    def opt_in(self) -> str:
        """The argument that asks for the stage; empty for a stage that always applies."""

    @property
    def always(self) -> bool:
        """Whether it runs even if ``stages`` does not name it."""


_FEW = 30
"""The most names that a fix lists."""


def case_options(
    arguments: Mapping[str, Any],
    *,
    scenarios: Collection[str],
    stages: Mapping[str, StageTraits],
    codes: Collection[str],
) -> CaseOptions:
    """Return the checked options for a marker's arguments.

    Args:
        scenarios, stages, codes: The names that the arguments may have.

    Raises:
        CaseError: An argument is unknown, malformed or contradicts another. It names the accepted values.
    """
    for name in arguments:
        if name not in ACCEPTED:
            raise CaseError(f"`export_ready` has no argument `{name}`.", _use_instead(name, ACCEPTED))
    given = {**dict.fromkeys(ACCEPTED), **arguments}
    if not any(given["dynamic_batch"] is accepted for accepted in (None, True, False)):
        raise CaseError(f"dynamic_batch={shown(given['dynamic_batch'])}: accepted are True and False")
    if given["dynamic_batch"] and given["dynamic_shapes"] is not None:
        raise CaseError("dynamic_batch and dynamic_shapes contradict each other", "Pass only one of them.")
    if isinstance(given["dynamic_shapes"], str) and given["dynamic_shapes"] != "auto":
        raise CaseError(
            f'dynamic_shapes={shown(given["dynamic_shapes"])}: accepted are torch.export\'s form and "auto"'
        )
    reason = "" if given["reason"] is None else given["reason"]
    if not isinstance(reason, str):
        raise CaseError(f"reason={shown(reason)}: accepted is a str")
    ignore = _names("ignore", given["ignore"], codes)
    xfail_stage = _names("xfail_stage", given["xfail_stage"], stages)
    if (ignore or xfail_stage) and not reason.strip():
        raise CaseError("ignore and xfail_stage need a reason", 'Add `reason="why this is accepted"`.')
    if reason and not (ignore or xfail_stage):
        raise CaseError("reason is given without ignore or xfail_stage")
    if len(xfail_stage) > 1:
        raise CaseError("xfail_stage accepts one stage only")
    rtol, atol = _tolerance(given["tolerance"])
    chosen = _names("stages", given["stages"], stages)
    lower = _names("lower", given["lower"], [name for name, stage in stages.items() if stage.opt_in == "lower"])
    budget = _budget(given["budget"])
    _check_devices(given["devices"])
    for name in (*chosen, *xfail_stage):
        if stages[name].opt_in == "lower" and name not in lower:
            raise CaseError(f"the stage {name!r} would never run", f'Add `lower=["{name}"]`.')
        if stages[name].opt_in == "budget" and not budget:
            raise CaseError(f"the stage {name!r} would never run", "Add a `budget`.")
    measured = ["reload" if "mib" in budget else "export"] if budget else []
    chosen = tuple(dict.fromkeys([*chosen, *lower, *measured])) if chosen else ()
    if xfail_stage and chosen and xfail_stage[0] not in chosen and not stages[xfail_stage[0]].always:
        raise CaseError(f"xfail_stage={xfail_stage[0]!r} is not among stages={list(chosen)}: it would never run")
    return CaseOptions(
        dynamic_batch=bool(given["dynamic_batch"]),
        dynamic_shapes=given["dynamic_shapes"],
        scenarios=_names("scenarios", given["scenarios"], scenarios),
        modes=_modes(given["strict"]),
        rtol=rtol,
        atol=atol,
        stages=chosen,
        ignore=ignore,
        reason=reason,
        xfail_stage=xfail_stage[0] if xfail_stage else "",
        lower=lower,
        budget=budget,
    )


def _modes(strict: object) -> tuple[Mode, ...]:
    if strict is None or isinstance(strict, bool):
        strict = "strict" if strict else "non-strict"
    if not isinstance(strict, str) or strict not in MODES:
        raise CaseError(f"strict={shown(strict)}: accepted are {', '.join(map(repr, MODES))}, True and False")
    return MODES[strict]


def _tolerance(given: object) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if not isinstance(given, Mapping) or not given or set(given) - {"rtol", "atol"}:
        example = '{"rtol": 1e-4, "atol": 0.0}'
        raise CaseError(f"tolerance={shown(given)}: accepted is a dict of rtol and atol, such as {example}")
    for name, value in given.items():
        if not _is_finite(value) or value < 0:
            raise CaseError(f"tolerance[{name!r}]={shown(value)}: accepted is a finite number >= 0")
    return float(given.get("rtol", 0.0)), float(given.get("atol", 0.0))


def _budget(given: object) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given:
        example = '{"seconds": 30, "mib": 100, "nodes": 2000}'
        raise CaseError(f"budget={shown(given)}: accepted is a dict of {', '.join(BUDGETS)}, such as {example}")
    for name, value in given.items():
        if name not in BUDGETS:
            raise CaseError(f"`budget` has the unknown key {shown(name)}.", _use_instead(str(name), BUDGETS))
        if not _is_finite(value) or value <= 0:
            raise CaseError(f"budget[{name!r}]={shown(value)}: accepted is a finite number > 0")
    return {name: given[name] for name in BUDGETS if name in given}


def _check_devices(given: object) -> None:
    """Raise CaseError for wrong devices; those that are right have decided which cases were collected."""
    names = (given,) if isinstance(given, str) else given
    if names is not None and not (isinstance(names, (list, tuple)) and names and all(map(is_device, names))):
        raise CaseError(f"devices={shown(given)}: accepted is a list of names such as {ACCEPTED_DEVICES}")


def _names(argument: str, given: object, accepted: Collection[str]) -> tuple[str, ...]:
    names = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise CaseError(f"{argument}={shown(given)}: accepted is a list of names")
    for name in names:
        if name not in accepted:
            raise CaseError(f"`{argument}` has the unknown name {name!r}.", _use_instead(name, sorted(accepted)))
    if given is not None and not names and argument != "ignore":
        raise CaseError(f"`{argument}` is empty.", f"Use one of {', '.join(sorted(accepted))}.")
    return tuple(dict.fromkeys(names))


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")


def _use_instead(name: str, accepted: Collection[str]) -> str:
    """Return a fix for a name that is not among ``accepted``."""
    close = difflib.get_close_matches(name, list(accepted), n=1)
    known = ", ".join(accepted) if len(accepted) <= _FEW else "those that `exportready explain` lists"
    return f"Write `{close[0]}`; accepted are {known}." if close else f"Use one of {known}."
