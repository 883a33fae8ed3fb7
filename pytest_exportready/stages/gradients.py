"""The exported program gives the gradients that the trained module gives, where it will be trained on."""

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
from pytest_exportready.case.wording import counted, few
from pytest_exportready.stages._stage import SkipStage, Stage

AGREE = Rule(
    "ER511",
    "gradients_agree",
    "A program that will be trained on (trainable=True) must give the gradients of the module. torch.export records "
    "the operators that the forward of a torch.autograd.Function runs, not the Function: its own backward is gone, the "
    "program differentiates the operators instead, forward results stay equal and nothing is said. Register the "
    "function as an operator with torch.library.custom_op and register_autograd, which an export keeps whole.",
)
RUN = Rule(
    "ER512",
    "gradients_exist",
    "A program that will be trained on (trainable=True) must run backward wherever the module does.",
)
_UNREGISTERED = re.compile(r"Trying to backward through ([\w.]+) but no autograd formula")
_RELATIVE = 1e-3  # of the rms of a gradient: wrong formulas are off by more, summation order by less
_RELATIVE_HALF = 0.1


def run(trial: Trial) -> Iterator[Observation]:
    case = trial.case
    assert trial.program is not None
    call = (case.args, case.kwargs)
    try:
        expected = eager_gradients(trial.reference, call, case.loss)
    except Exception as error:
        unregistered = _UNREGISTERED.search(str(error))
        if unregistered:
            yield _without_backward(trial, unregistered[1])
            return
        raise SkipStage(f"the module itself gives no gradients in eval mode: {exception_text(error)}") from error
    module = trial.program.module()
    try:
        with global_state_kept():
            given = gradients(module, dict(module.named_parameters()), call, case.loss)
    except Exception as error:
        fix, says = _registration(expected), exception_text(error)
        yield RUN.error("", "backward through the program raised", fix, torch_says=says)
        return
    yield from _compare(trial, expected, given)


def _without_backward(trial: Trial, name: str) -> Finding:
    """The module itself cannot be trained through this custom operator of the program."""
    assert trial.program is not None
    node = next((node for node in calls(trial.program) if str(node.target) == name), None)
    file, line = source(node) if node is not None else ("", 0)
    operator = operator_name(node.target) if node is not None else name
    message = f"the custom operator {operator} has no backward: neither the module nor the program can be trained on"
    fix = autograd(node.target) if node is not None else "torch.library.register_autograd(...)"
    return RUN.error(operator, message, fix, file=file, line=line)


def _compare(trial: Trial, expected: Gradients, given: Gradients) -> Iterator[Observation]:
    half = any(grad.dtype.itemsize <= 2 for grad in expected.by_name.values())
    tolerance = Tolerance(relative=_RELATIVE_HALF if half else _RELATIVE)
    lost = [name for name in expected.by_name if name not in given.by_name and expected.by_name[name].any()]
    unlike: dict[str, float] = {}
    for name, gradient in expected.by_name.items():
        if name in given.by_name:
            result = compare(gradient, given.by_name[name], tolerance)
            if not result.agree:
                unlike[name] = result.largest
    yield {GRADIENTS: len(expected.by_name)}
    places = [f"{name} at {file}:{line}" if file else name for name, file, line in expected.functions]
    through = f", through {few(places)}, whose own backward the export dropped" if places else ""
    file, line = next(((file, line) for _, file, line in expected.functions), ("", 0))
    if lost or unlike:
        worst = max(unlike.values(), default=0.0)
        parts = [f"no gradient reaches {few(lost)}"] if lost else []
        if unlike:
            parts.append(f"{counted(len(unlike), 'gradient')} off by up to {worst:.2g} of its rms: {few(unlike)}")
        yield AGREE.error(
            few([*lost, *unlike]), f"{'; '.join(parts)}{through}", _registration(expected), file=file, line=line
        )


def _registration(expected: Gradients) -> str:
    """What to write in place of the first custom Function."""
    if not expected.functions:
        return "export a forward made of operators that torch differentiates as the module does"
    name = expected.functions[0][0]
    return (
        f'make {name} an operator: @torch.library.custom_op("mylib::{name.lower()}", mutates_args=()) on its forward, '
        "register_fake for the shape, register_autograd(backward, setup_context=...) for the gradient"
    )


STAGE = Stage(run, rules=(AGREE, RUN), after=("export",), asked=lambda trial: trial.case.trainable)
