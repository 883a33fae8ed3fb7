"""One plain assertion for each check, for use in any test or export script.

Each raises AssertionError with a line for each error and warning found, and passes over what is only worth
knowing. Those whose check looks at the exported program export the module for it when there are example inputs, and
raise TypeError where they cannot do without.
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
    """The signature that the assertions share; the arguments are those of an ExportCase."""

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
            raise TypeError(f"assert_{name} looks at the exported program: example_inputs are needed")

    assertion.__name__ = assertion.__qualname__ = f"assert_{name}"
    assertion.__doc__ = f"Raises AssertionError unless ``{name}`` holds; see ``exportready explain``."
    return assertion


def __getattr__(name: str) -> Assertion:
    """Return the assertion ``assert_<check>`` of a check that has none of its own below."""
    check = name.removeprefix("assert_")
    if check == name or check not in all_checks():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _assertion(check)


def assert_autograd_functions_keep_rules(model: nn.Module) -> None:
    """Raises AssertionError unless ``autograd_functions_keep_rules`` holds, as for a program that is trained on."""
    __tracebackhide__ = True
    _raise(all_checks()["autograd_functions_keep_rules"].inspect(Subject(model, trainable=True)))


def assert_grad_scaler_cleared(scaler: GradScaler | Mapping[str, Any] | nn.Module) -> None:
    """Raises AssertionError unless ``grad_scaler_cleared`` holds.

    scaler: a GradScaler, its state dict, or a module of which every GradScaler kept as an attribute is
    judged.
    Raises TypeError for anything else.
    """
    __tracebackhide__ = True
    from torch import nn
    from torch.amp import GradScaler

    if isinstance(scaler, nn.Module):
        subject = Subject(scaler)
    elif isinstance(scaler, (GradScaler, Mapping)):
        subject = Subject(nn.Identity(), training_state={"scaler": scaler})
    else:
        raise TypeError(f"a GradScaler, its state dict or a module is needed, not a {type(scaler).__name__}")
    _raise(all_checks()["grad_scaler_cleared"].inspect(subject))


def assert_export_ready(model: nn.Module, example_inputs: tuple[Any, ...], **arguments: Any) -> None:
    """Raises AssertionError, with the overview as its message, unless ``export_ready_check`` says ready.

    arguments: as for ``export_ready_check``.
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
    """Raises RankMismatchError, on every rank alike, unless the ranks have the same. Every rank of the group calls it;
    nothing collective is run, so that it works between ranks that diverge.

    model_or_state: a module (judged under its DistributedDataParallel), an ExportedProgram, a state dict or any
    pytree of tensors. Of a DTensor the global shape, the placements and the mesh count, not the local shard.
    what: one or more of ``structure`` (classes, names and their order, ties, shapes, strides, dtypes, kinds of
    device, requires_grad), ``parameters`` and ``buffers`` (values, to the bit), ``modes`` and ``gradients``. The
    tensors of a state dict or pytree are compared when parameters or buffers are.
    uneven: ``{pattern of a tensor's name: dimension}`` for tensors such as the last batch, ``{"images": 0}`` or
    ``{"*": 0}``: that dimension may differ by rank, and the values are each rank's own. Entries of a pytree are
    named with points, ``inputs.0.images``.
    group: the default group unless given. timeout: seconds to wait for the others at each step; ranks that did not
    come are named at the latest a second later.

    The error names, for each of the worst ten mismatches, the tensor, the field, and what each rank has.
    Raises ValueError for an unknown aspect and in a process without a group.
    """
    __tracebackhide__ = True
    from pytest_exportready.analysis.ranks.mismatch import require_agreement

    aspects = (what,) if isinstance(what, str) else tuple(what)
    require_agreement(model_or_state, aspects, uneven or {}, group, timeout)


def _of_program(check: Check, subject: Subject) -> Iterable[Finding]:
    """What ``check`` finds in the program, or what kept the export from making one."""
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
    told = [str(finding) for finding in findings if finding.severity != "note"]
    if told:
        raise AssertionError("\n".join(told))
