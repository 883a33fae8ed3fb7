"""The exported program gives the gradients of the eager module, if it will be trained."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.operator_effects import operator_name
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.gradients import Gradients, eager_gradients, gradients
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.nodes import calls, source
from pytest_exportready.analysis.source.operator_registration import autograd
from pytest_exportready.case.facts import GRADIENTS
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import few
from pytest_exportready.stages._stage import SkipStage, Stage

AGREE = Rule(
    "ER511",
    "gradients_agree",
    """A program that will be trained (`trainable=True`) gives the gradients of the eager module.

    Why it matters:
        torch.export records the operators in the forward of a torch.autograd.Function, not the Function. Its
        backward is lost: the program differentiates the operators instead, and its outputs are still equal.

    Example:
        class Round(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.round()

            @staticmethod
            def backward(ctx, grad):
                return grad

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x):
                return Round.apply(self.linear(x))

        export_ready_check(Net().eval(), (torch.randn(2, 4),), trainable=True)

    Instead:
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x):
                y = self.linear(x)
                return y + (y.round() - y).detach()

        export_ready_check(Net().eval(), (torch.randn(2, 4),), trainable=True)

    Severity:
        error: a gradient is missing, or differs by more than 1e-3 of its rms (0.1 in half precision).
    """,
)
RUN = Rule(
    "ER512",
    "gradients_exist",
    """Backward through a program that will be trained (`trainable=True`) runs.

    Why it matters:
        A custom operator without a registered backward fails only when the program is trained.

    Example:
        @torch.library.custom_op("er512::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        double.register_fake(lambda x: torch.empty_like(x))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x):
                return double(self.linear(x))

        export_ready_check(Net().eval(), (torch.randn(2, 4),), trainable=True)

    Instead:
        @torch.library.custom_op("er512::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(lambda x: torch.empty_like(x))
        twice.register_autograd(lambda ctx, grad: grad * 2)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x):
                return twice(self.linear(x))

        export_ready_check(Net().eval(), (torch.randn(2, 4),), trainable=True)

    Severity:
        error: backward through the program, or through one of its custom operators, raises an exception.
    """,
)
_UNREGISTERED = re.compile(r"Trying to backward through ([\w.]+) but no autograd formula")
_REGISTER = "Register its backward: `torch.library.register_autograd(...)`."
_RELATIVE = 1e-3  # of the rms of a gradient: wrong formulas differ by more, another order of summation by less
_RELATIVE_HALF = 0.1


def run(trial: Trial) -> Iterator[Observation]:
    case = trial.case
    assert trial.program is not None
    try:
        expected = eager_gradients(trial.reference, trial.call, case.loss)
    except Exception as error:
        unregistered = _UNREGISTERED.search(str(error))
        if unregistered:
            yield _without_backward(trial, unregistered[1])
            return
        raise SkipStage(f"the eager module has no gradients in eval mode: {exception_text(error)}") from error
    module = trial.program.module()
    try:
        with global_state_kept():
            actual = gradients(module, dict(module.named_parameters()), trial.call, case.loss)
    except Exception as error:
        yield RUN.error(
            "",
            "Backward through the exported program raises an exception.",
            _registration(expected),
            torch_says=exception_text(error),
        )
        return
    yield {GRADIENTS: len(expected.by_name)}
    yield from _differences(expected, actual)


def _without_backward(trial: Trial, name: str) -> Finding:
    """Report a custom operator of the program through which the module itself cannot be trained."""
    assert trial.program is not None
    node = next((node for node in calls(trial.program) if str(node.target) == name), None)
    file, line = source(node) if node is not None else ("", 0)
    return RUN.error(
        operator_name(node.target) if node is not None else name,
        "This custom operator has no backward, so neither the eager module nor the program can be trained.",
        f"Register its backward.\n{autograd(node.target)}" if node is not None else _REGISTER,
        file=file,
        line=line,
    )


def _differences(expected: Gradients, actual: Gradients) -> Iterator[Finding]:
    half = any(grad.dtype.itemsize <= 2 for grad in expected.by_name.values())
    tolerance = Tolerance(relative=_RELATIVE_HALF if half else _RELATIVE)
    compared = {
        name: compare(gradient, actual.by_name[name], tolerance)
        for name, gradient in expected.by_name.items()
        if name in actual.by_name
    }
    lost = [name for name, gradient in expected.by_name.items() if name not in actual.by_name and gradient.any()]
    different = [name for name, result in compared.items() if not result.agree]
    if not (lost or different):
        return
    parts = [f"{len(lost)} missing"] if lost else []
    if different:
        parts.insert(
            0, f"{len(different)} by up to {max(compared[name].largest for name in different):.2g} x their rms"
        )
    functions = [name for name, _, _ in expected.functions]
    why = f" The export dropped the backward of the autograd.Function {few(functions)}." if functions else ""
    file, line = next(((file, line) for _, file, line in expected.functions), ("", 0))
    yield AGREE.error(
        few([*lost, *different]),
        f"Gradients differ from those of the eager module: {', '.join(parts)}.{why}",
        _registration(expected),
        file=file,
        line=line,
    )


def _registration(expected: Gradients) -> str:
    """Return what to write instead of the first custom Function."""
    if not expected.functions:
        return "Write `forward` with operators that torch differentiates as the eager module does."
    name = expected.functions[0][0]
    return (
        f'Make `{name}` an operator: `@torch.library.custom_op("mylib::{name.lower()}", mutates_args=())` on its '
        "forward, `register_fake` for the shape and `register_autograd` for the gradient."
    )


STAGE = Stage(run, rules=(AGREE, RUN), after=("export",), asked=lambda trial: trial.case.trainable)
