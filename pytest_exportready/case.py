"""What a user declares: the ``export_ready`` marker and ExportCase."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pytest_exportready.text import plain, without_tensors

if TYPE_CHECKING:
    from torch import nn

F = TypeVar("F", bound=Callable[..., Any])

Mode = Literal["non-strict", "strict"]
MODES: dict[str, tuple[Mode, ...]] = {
    "non-strict": ("non-strict",),
    "strict": ("strict",),
    "both": ("non-strict", "strict"),
}


class CaseError(Exception):
    """A case or its marker cannot be understood; the message names the argument and the accepted ones."""


@dataclass(frozen=True)
class ExportCase:
    """A model, its example inputs, and what a careful user knows besides.

    model: the trained module, in the mode in which it would be exported (call ``.eval()``).
    args, kwargs: example inputs of ``model.forward``.
    more_inputs: further ``(args, kwargs)`` pairs of the same kind on which the program must agree too.
    checkpoint: the state dict that is meant to ship; its names must be those of the program.
    golden: the output recorded at the end of training for the example inputs; the module must still give it,
    within ``golden_tolerance`` (largest error relative to the rms of ``golden``).
    training_state: ``{"scaler": ..., "optimizer": ..., "step": ...}``, as objects or as their state dicts.
    target_device: where the program will run, such as ``"cuda"``.
    stateful_calls: the module has state: ``args`` and then ``more_inputs`` are compared as one sequence of
    calls.
    allow_mutation: the module may change its own state in eval (a cache); otherwise that is a finding.
    trainable: the program will be trained on: its gradients are compared with those of the module.
    loss: ``loss(output) -> scalar`` for the scenarios that train; by default the mean square of every
    floating-point output.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    more_inputs: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = ()
    checkpoint: Mapping[str, Any] | None = None
    golden: Any = None
    golden_tolerance: float = 1e-3
    training_state: Mapping[str, Any] = field(default_factory=dict)
    target_device: str | None = None
    stateful_calls: bool = False
    allow_mutation: bool = False
    trainable: bool = False
    loss: Callable[[Any], Any] | None = None

    @property
    def carries_training(self) -> bool:
        """True when the user brought results of a real training, which further steps would invalidate."""
        return self.golden is not None or self.checkpoint is not None or bool(self.training_state)


def as_case(returned: object) -> ExportCase:
    """The ExportCase for what a case function returned: ``(model, args[, kwargs])`` or an ExportCase.

    Raises CaseError for anything else, naming what is wrong.
    """
    import torch

    if not isinstance(returned, ExportCase):
        if not isinstance(returned, (tuple, list)) or len(returned) not in (2, 3):
            raise CaseError(
                f"the case returned {_shape_of(returned)}, not (model, args), (model, args, kwargs) or an ExportCase"
            )
        returned = ExportCase(*returned)
    if not isinstance(returned.model, torch.nn.Module) or isinstance(returned.model, torch.jit.ScriptModule):
        fix = _as_module(returned.model)
        raise CaseError(f"the model is {_shape_of(returned.model)}, not a torch.nn.Module in Python. Fix: {fix}")
    if isinstance(returned.args, torch.Tensor):
        raise CaseError("the example inputs are one tensor, not a tuple of inputs: write (x,) instead of x")
    if not isinstance(returned.args, (tuple, list)):
        raise CaseError(f"the example inputs are {_shape_of(returned.args)}, not a tuple")
    if not isinstance(returned.kwargs, Mapping):
        raise CaseError(f"the example keyword inputs are {_shape_of(returned.kwargs)}, not a dict")
    if not all(isinstance(name, str) for name in returned.kwargs):
        raise CaseError("the example keyword inputs are not keyed by the names of forward's parameters")
    for position, pair in enumerate(returned.more_inputs):
        if not _is_call(pair):
            raise CaseError(f"more_inputs[{position}] is {_shape_of(pair)}, not a pair (args, kwargs)")
    for name in ("checkpoint", "training_state"):
        stated = getattr(returned, name)
        if not isinstance(stated, Mapping) and (stated is not None or name == "training_state"):
            raise CaseError(f"{name} is {_shape_of(stated)}, not a dict: load it first if it is a file")
    if returned.target_device is not None:
        try:
            torch.device(returned.target_device)
        except (RuntimeError, TypeError) as error:
            shown = _shown(returned.target_device)
            raise CaseError(f'target_device={shown}: accepted is a device of torch, such as "cuda"') from error
    values = {f.name: getattr(returned, f.name) for f in fields(ExportCase)}
    return ExportCase(**{**values, "args": tuple(returned.args)})


def _as_module(model: Any) -> str:
    """How to give as a module what is none."""
    import torch

    name = getattr(model, "__name__", "it")
    if isinstance(model, type):
        return f"return an instance, {name}(...), instead of the class"
    if isinstance(getattr(model, "__self__", None), torch.nn.Module):
        return f"return the module itself instead of its {name}"
    if isinstance(model, torch.jit.ScriptModule):
        return "return the Python module that was given to torch.jit.script or torch.jit.trace"
    if type(model).__name__ == "ExportedProgram":
        return "return the module that it was exported from: the export is what is to be proved"
    if isinstance(model, Mapping):
        return "build the module and load the state dict into it: model.load_state_dict(state)"
    if not callable(model):
        return "return the module first, then its inputs: (model, (x,))"
    before = " as it was before torch.jit" * isinstance(model, torch.jit.ScriptFunction)
    before += " as it was before torch.compile" * hasattr(model, "get_compiler_config")
    return f"put the function{before} into a torch.nn.Module: def forward(self, x): return {name}(x)"


def _is_call(pair: object) -> bool:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return False
    return isinstance(pair[0], (tuple, list)) and isinstance(pair[1], Mapping)


def _shape_of(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(type(v).__name__ for v in value)})"
    kind = type(value).__name__ if not isinstance(value, type) else f"class {value.__name__}"
    return "None" if value is None else f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


@dataclass(frozen=True)
class CaseOptions:
    """What the marker says about a case, checked. Defaults are those of ``@export_ready()``."""

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


ALWAYS = ("train", "inspect", "ranks")  # stages that run whatever ``stages`` asks for, the last where there are several

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
)


@overload
def export_ready(function: F) -> F: ...
@overload
def export_ready(**arguments: Any) -> Callable[[F], F]: ...
def export_ready(function: F | None = None, **arguments: Any) -> F | Callable[[F], F]:
    """Mark a function or method as an export case: ``@export_ready`` or
    ``@export_ready(dynamic_batch=True)``.

    The function returns ``(model, args)``, ``(model, args, kwargs)`` or an ExportCase; it takes fixtures and
    parameters as any test does. The same as ``@pytest.mark.export_ready(...)``. Arguments of the marks on a module,
    class, function and parameter add up; the closest wins.

    dynamic_batch: dimension 0 of the example tensors may have any size.
    dynamic_shapes: as for ``torch.export.export``, or ``"auto"`` to find out what can be dynamic. Not together with
    dynamic_batch.
    scenarios: how the model is trained before the export, such as ``["plain"]``; ``["as_is"]`` trains
    nothing.
    strict: ``"non-strict"`` (default), ``"strict"`` or ``"both"``; also False and True.
    tolerance: ``{"rtol": ..., "atol": ...}`` instead of the tolerances by dtype.
    stages: run these stages (and those they need) only.
    ignore: codes such as ``["ER305"]`` that do not count, with a ``reason``.
    xfail_stage: the stage at which this case is known to fail, with a ``reason``; passing it is a failure.
    """
    import pytest

    mark: Callable[[F], F] = pytest.mark.export_ready(**arguments)
    return mark if function is None else mark(function)


def case_options(
    arguments: Mapping[str, Any],
    *,
    scenarios: Collection[str],
    stages: Collection[str],
    codes: Collection[str],
) -> CaseOptions:
    """The checked options for a marker's arguments.

    Raises CaseError for an unknown, malformed or contradictory argument; the message names it and what is
    accepted.
    """
    for name in arguments:
        if name not in ACCEPTED:
            raise CaseError(
                f"unknown argument {name!r}{_did_you_mean(name, ACCEPTED)}. Accepted: {', '.join(ACCEPTED)}"
            )
    given = {**dict.fromkeys(ACCEPTED), **arguments}
    if not any(given["dynamic_batch"] is accepted for accepted in (None, True, False)):
        raise CaseError(f"dynamic_batch={_shown(given['dynamic_batch'])}: accepted are True and False")
    if given["dynamic_batch"] and given["dynamic_shapes"] is not None:
        raise CaseError("dynamic_batch and dynamic_shapes contradict each other: give one of them")
    if isinstance(given["dynamic_shapes"], str) and given["dynamic_shapes"] != "auto":
        raise CaseError(
            f'dynamic_shapes={_shown(given["dynamic_shapes"])}: accepted are torch.export\'s form and "auto"'
        )
    reason = _typed("reason", given["reason"], str, "")
    ignore = _names("ignore", given["ignore"], codes)
    xfail_stage = _names("xfail_stage", given["xfail_stage"], stages)
    if (ignore or xfail_stage) and not reason.strip():
        raise CaseError('ignore and xfail_stage need a reason: add reason="why this is accepted"')
    if reason and not (ignore or xfail_stage):
        raise CaseError("reason belongs to ignore or xfail_stage, and neither is given")
    if len(xfail_stage) > 1:
        raise CaseError("xfail_stage names one stage")
    rtol, atol = _tolerance(given["tolerance"])
    chosen = _names("stages", given["stages"], stages)
    if xfail_stage and chosen and xfail_stage[0] not in (*ALWAYS, *chosen):
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
    )


def _modes(strict: object) -> tuple[Mode, ...]:
    if strict is None or isinstance(strict, bool):
        strict = "strict" if strict else "non-strict"
    if not isinstance(strict, str) or strict not in MODES:
        raise CaseError(f"strict={_shown(strict)}: accepted are {', '.join(map(repr, MODES))}, True and False")
    return MODES[strict]


def _tolerance(given: object) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if not isinstance(given, Mapping) or not given or set(given) - {"rtol", "atol"}:
        example = '{"rtol": 1e-4, "atol": 0.0}'
        raise CaseError(f"tolerance={_shown(given)}: accepted is a dict of rtol and atol, such as {example}")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise CaseError(f"tolerance[{name!r}]={_shown(value)}: accepted is a finite number >= 0")
    return float(given.get("rtol", 0.0)), float(given.get("atol", 0.0))


def _names(argument: str, given: object, accepted: Collection[str]) -> tuple[str, ...]:
    names = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise CaseError(f"{argument}={_shown(given)}: accepted is a list of names")
    for name in names:
        if name not in accepted:
            known = ", ".join(sorted(accepted))
            raise CaseError(f"{argument}: unknown {name!r}{_did_you_mean(name, accepted)}. Accepted: {known}")
    if given is not None and not names and argument != "ignore":
        raise CaseError(f"{argument}=[] names nothing. Accepted: {', '.join(sorted(accepted))}")
    return tuple(dict.fromkeys(names))


def _typed(argument: str, given: object, kind: type[str], default: str) -> str:
    if given is None:
        return default
    if not isinstance(given, kind):
        raise CaseError(f"{argument}={_shown(given)}: accepted is a {kind.__name__}")
    return given


def _shown(value: object) -> str:
    return plain(without_tensors(repr(value)), 80)


def _did_you_mean(name: str, accepted: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(accepted), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
