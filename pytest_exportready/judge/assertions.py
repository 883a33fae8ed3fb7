"""One assertion for each check, for use in any test or export script.

Each raises AssertionError with a line for each error and warning; notes are ignored. If the check looks at the exported
program, the assertion exports the module, and raises TypeError if it has no example inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Check, Subject, nothing

if TYPE_CHECKING:
    from torch import nn
    from torch.amp import GradScaler
    from torch.distributed import ProcessGroup


class Assertion(Protocol):
    """The signature of the assertions; the arguments are those of an ExportCase."""

    __name__: str

    def __call__(
        self,
        model: nn.Module,
        *,
        example_inputs: tuple[Any, ...] = (),
        example_kwargs: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        training_state: Mapping[str, Any] | None = None,
        target_device: str | None = None,
    ) -> None: ...


@cache
def _assertion(name: str) -> Assertion:
    def assertion(
        model: nn.Module,
        *,
        example_inputs: tuple[Any, ...] = (),
        example_kwargs: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        training_state: Mapping[str, Any] | None = None,
        target_device: str | None = None,
    ) -> None:
        __tracebackhide__ = True
        subject = Subject(model, example_inputs, example_kwargs or {}, checkpoint, training_state or {}, target_device)
        check = all_checks()[name]
        _raise(check.inspect(subject))
        if check.inspect_program is not None and (subject.args or subject.kwargs):
            _raise(_of_program(check, subject))
        elif check.inspect is nothing:
            raise TypeError(f"assert_{name} needs example_inputs, as it checks the exported program")

    assertion.__name__ = assertion.__qualname__ = f"assert_{name}"
    assertion.__doc__ = f"Raise AssertionError unless ``{name}`` holds; see ``exportready explain {name}``."
    return assertion


def __getattr__(name: str) -> Assertion:
    """Return the assertion ``assert_<check>`` of a check without one of its own below."""
    check = name.removeprefix("assert_")
    if check == name or check not in all_checks():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _assertion(check)


def assert_autograd_functions_keep_rules(model: nn.Module) -> None:
    """Raise AssertionError unless ``autograd_functions_keep_rules`` holds, as for a program that will be trained."""
    __tracebackhide__ = True
    _raise(all_checks()["autograd_functions_keep_rules"].inspect(Subject(model, trainable=True)))


def assert_grad_scaler_cleared(scaler: GradScaler | Mapping[str, Any] | nn.Module) -> None:
    """Raise AssertionError unless ``grad_scaler_cleared`` holds.

    Args:
        scaler: A GradScaler, its state dict, or a module whose attributes are searched for GradScalers.

    Raises:
        TypeError: ``scaler`` is something else.
    """
    __tracebackhide__ = True
    from torch import nn
    from torch.amp import GradScaler

    if isinstance(scaler, nn.Module):
        subject = Subject(scaler)
    elif isinstance(scaler, (GradScaler, Mapping)):
        subject = Subject(nn.Identity(), training_state={"scaler": scaler})
    else:
        raise TypeError(f"scaler is a {type(scaler).__name__}, not a GradScaler, its state dict or a module")
    _raise(all_checks()["grad_scaler_cleared"].inspect(subject))


def assert_export_ready(model: nn.Module, example_inputs: tuple[Any, ...], **arguments: Any) -> None:
    """Raise AssertionError with the overview as its message unless the model is ready.

    Args:
        arguments: As for ``export_ready_check``.
    """
    __tracebackhide__ = True
    from pytest_exportready.judge.ready_check import export_ready_check

    readiness = export_ready_check(model, example_inputs, **arguments)
    if not readiness.ready:
        raise AssertionError(str(readiness))


def assert_ranks_agree(
    model_or_state: Any,
    what: str | Sequence[str] = ("structure", "parameters", "buffers", "modes"),
    *,
    uneven: Mapping[str, int] | None = None,
    group: ProcessGroup | None = None,
    timeout: float = 30.0,
) -> None:
    """Raise RankMismatchError, the same on every rank, unless the ranks are the same.

    Every rank of the group calls it. No collective is run, so it works between ranks that have diverged.

    Args:
        model_or_state: A module (without its training wrapper), an ExportedProgram, a state dict or any pytree of
            tensors. Of a DTensor the global shape, the placements and the mesh are compared, not the local shard.
        what: One or more of ``structure`` (classes, names and their order, ties, shapes, strides, dtypes, kinds of
            device, requires_grad), ``parameters`` and ``buffers`` (values, bitwise), ``modes`` and ``gradients``. The
            tensors of a state dict or pytree are compared if parameters or buffers are.
        uneven: ``{pattern of a tensor's name: dimension}`` for tensors such as the last batch, ``{"images": 0}`` or
            ``{"*": 0}``: that dimension may differ by rank, and the values are not compared. Entries of a pytree are
            named with dots, ``inputs.0.images``.
        group: The default group if None.
        timeout: Seconds to wait for the others at each step. Absent ranks are named at most a second later.

    Raises:
        RankMismatchError: It names, for each of the worst ten mismatches, the tensor, the field and the ranks.
        ValueError: An aspect is unknown, or this process is not in the group.
    """
    __tracebackhide__ = True
    from pytest_exportready.analysis.ranks.mismatch import require_agreement

    aspects = (what,) if isinstance(what, str) else tuple(what)
    require_agreement(model_or_state, aspects, uneven or {}, group, timeout)


def _of_program(check: Check, subject: Subject) -> Iterable[Finding]:
    """Return what ``check`` finds in the program, or the findings of an export that failed."""
    from pytest_exportready.analysis.execution.trial import Trial
    from pytest_exportready.case.export_case import ExportCase
    from pytest_exportready.case.options import CaseOptions
    from pytest_exportready.judge.stage_loop import StageLoop
    from pytest_exportready.stages import all_stages

    case = ExportCase(subject.model, subject.args, subject.kwargs)
    trial = Trial(case, CaseOptions(), "non-strict")
    loop = StageLoop(lambda stage: None, lead=True)
    loop.run({"export": all_stages()["export"]}, trial)
    if trial.program is None or check.inspect_program is None:
        return loop.findings
    return check.inspect_program(trial.program, subject)


def _raise(findings: Iterable[Finding]) -> None:
    __tracebackhide__ = True
    messages = [str(finding) for finding in findings if finding.severity != "note"]
    if messages:
        raise AssertionError("\n".join(messages))
