"""The custom operators of the program do what their schemas say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from pytest_exportready.analysis.execution.detectors.operator_effects import Observed, observe
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.gradients import eager_gradients
from pytest_exportready.analysis.execution.pytree import distinct
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.nodes import calls, is_users_operator, owner, source
from pytest_exportready.analysis.source.operator_registration import autograd, fake_kernel, writing
from pytest_exportready.case import facts
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import few
from pytest_exportready.stages._stage import Stage

SCHEMA = Rule(
    "ER161",
    "operators_keep_their_schema",
    "A custom operator writes an argument, or returns memory of one, and its schema does not say so. torch.export "
    "takes the schema at its word, and so do decompositions and compilers, which reorder and drop calls. Found by "
    "running the program, and by torch.library.opcheck on the arguments seen there.",
)
FAKE = Rule(
    "ER162",
    "fake_kernels_keep_strides",
    "The fake kernel of a custom operator gives other strides than the operator: the program is right where it runs as "
    "exported, and a compiler that lays out memory by the fake kernel reads it wrongly (torch.library.opcheck).",
)
GRADIENTS = Rule(
    "ER163",
    "operators_differentiate",
    "A program that will be trained on (trainable=True) needs the gradient of a custom operator registered as its "
    "autograd: what autograd records inside of a kernel is lost when the program is compiled (torch.library.opcheck).",
)


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    nodes = {node.target: node for node in reversed(list(calls(trial.program))) if is_users_operator(node)}
    yield {facts.OPERATORS: len(nodes)}
    if not nodes:
        return
    call = (trial.case.args, dict(trial.case.kwargs))
    seen: dict[Any, Observed] = {}
    with suppress(Exception):  # a program that does not run is told by the stage parity
        observe(lambda: trial.running.outputs([call]), seen)
    trained: dict[Any, Observed] = {}
    if trial.case.trainable:
        with suppress(Exception):  # and gradients that there are not, by the stage gradients
            observe(lambda: eager_gradients(trial.reference, call, trial.case.loss), trained)
    for operator, observed in seen.items():
        node = nodes.get(operator)
        file, line = source(node) if node is not None else ("", 0)
        inside = owner(node) if node is not None else ""
        where = f"{observed.name} in {inside}" if inside else observed.name
        for fault in _faults(observed, trained.get(operator)):
            yield replace(fault, where=where, file=file, line=line)


def _faults(observed: Observed, trained: Observed | None) -> Iterator[Finding]:
    """Findings without their place; of what one cause shows in several tests only the first."""
    operator = observed.operator
    if observed.written:
        names = list(observed.written)
        yield SCHEMA.error(
            "",
            f"{observed.name} writes its argument {few(names)}, which its schema does not say: {operator._schema}",
            f"{writing(operator, names)}, or write a copy in it: {names[0]} = {names[0]}.clone()",
        )
    elif observed.aliased:
        name = next(iter(observed.aliased))
        yield SCHEMA.error(
            "",
            f"{observed.name} returns memory of its argument {name}, and its schema says that the result is new: "
            f"{operator._schema}",
            "return a copy from the operator: result.clone()",
        )
    else:
        yield from _refused_by_opcheck(observed)
    if trained is not None and trained.differentiated:
        problem = _opcheck(trained, ("test_autograd_registration",), grad=True)
        if problem and _opcheck(trained, ("test_aot_dispatch_static",), grad=True):
            message = f"the gradient of {observed.name} is lost when the program is compiled"
            yield GRADIENTS.error("", message, autograd(operator), torch_says=problem)


def _refused_by_opcheck(observed: Observed) -> Iterator[Finding]:
    problem = _opcheck(observed, ("test_schema",))
    if problem:
        fix = f"declare in its schema what it does: {observed.operator._schema}"
        yield SCHEMA.error("", f"torch.library.opcheck refuses {observed.name}", fix, torch_says=problem)
        return
    problem = _opcheck(observed, ("test_faketensor",))
    if "Stride mismatch" in problem:  # other shapes and dtypes are seen where the program runs
        message = f"the fake kernel of {observed.name} gives other strides than the operator"
        fix = f"{fake_kernel(observed.operator)}; or return .contiguous() from the operator"
        yield FAKE.warning("", message, fix, torch_says=problem)


def _opcheck(observed: Observed, tests: tuple[str, ...], *, grad: bool = False) -> str:
    """What torch.library.opcheck has against the operator on the arguments that were seen; empty for nothing."""
    args, kwargs = distinct((observed.args, observed.kwargs))
    with global_state_kept(), torch.set_grad_enabled(grad):
        try:
            outcomes = torch.library.opcheck(observed.operator, args, kwargs, test_utils=tests, raise_exception=False)
        except Exception as error:
            return exception_text(error, 300)
    refused: list[Any] = [outcome for outcome in outcomes.values() if isinstance(outcome, BaseException)]
    return exception_text(refused[0], 300) if refused else ""


STAGE = Stage(run, rules=(SCHEMA, FAKE, GRADIENTS), after=("export",), every_mode=False)
