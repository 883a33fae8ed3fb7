"""The custom operators of the program do what their schemas declare."""

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
    """A custom operator modifies and returns only what its schema declares.

    Found by running the program, and by torch.library.opcheck on the arguments seen there.

    Why it matters:
        torch.export, decompositions and compilers trust the schema: they reorder and drop calls.

    Example:
        @torch.library.custom_op("er161::scale", mutates_args=())
        def scale(x: torch.Tensor, by: float) -> torch.Tensor:
            return x.mul_(by).clone()

        scale.register_fake(lambda x, by: torch.empty_like(x))

        class Net(nn.Module):
            def forward(self, x):
                return scale(x + 1, 2.0)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        @torch.library.custom_op("er161::scaled", mutates_args=())
        def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
            return x * by

        scaled.register_fake(lambda x, by: torch.empty_like(x))

        class Net(nn.Module):
            def forward(self, x):
                return scaled(x + 1, 2.0)

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        error: an argument is modified, or a result shares memory with an argument, and the schema does not
            declare it.
    """,
)
FAKE = Rule(
    "ER162",
    "fake_kernels_keep_strides",
    """The fake kernel of a custom operator gives the strides that the operator gives.

    Why it matters:
        The program is right as it is exported. A compiler lays out memory by the fake kernel and reads it
        wrongly.

    Example:
        @torch.library.custom_op("er162::turned", mutates_args=())
        def turned(x: torch.Tensor) -> torch.Tensor:
            return x.t().clone(memory_format=torch.preserve_format)

        turned.register_fake(lambda x: x.new_empty(x.shape[1], x.shape[0]))

        class Net(nn.Module):
            def forward(self, x):
                return turned(x) + 1

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Instead:
        @torch.library.custom_op("er162::transposed", mutates_args=())
        def transposed(x: torch.Tensor) -> torch.Tensor:
            return x.t().contiguous()

        transposed.register_fake(lambda x: x.new_empty(x.shape[1], x.shape[0]))

        class Net(nn.Module):
            def forward(self, x):
                return transposed(x) + 1

        export_ready_check(Net().eval(), (torch.randn(2, 4),))

    Severity:
        warning: the strides differ.
    """,
)
GRADIENTS = Rule(
    "ER163",
    "operators_differentiate",
    """A custom operator in a program that will be trained (`trainable=True`) has its gradient registered as
    autograd.

    Why it matters:
        What autograd records inside a kernel is lost when the program is compiled.

    Severity:
        error: torch.library.opcheck reports that the gradient is lost.
    """,
)


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    nodes = {node.target: node for node in reversed(list(calls(trial.program))) if is_users_operator(node)}
    yield {facts.OPERATORS: len(nodes)}
    if not nodes:
        return
    seen: dict[Any, Observed] = {}
    with suppress(Exception):  # the stage parity reports a program that does not run
        observe(lambda: trial.running.outputs([trial.call]), seen)
    trained: dict[Any, Observed] = {}
    if trial.case.trainable:
        with suppress(Exception):  # the stage gradients reports missing gradients
            observe(lambda: eager_gradients(trial.reference, trial.call, trial.case.loss), trained)
    for operator, observed in seen.items():
        node = nodes.get(operator)
        file, line = source(node) if node is not None else ("", 0)
        module = owner(node) if node is not None else ""
        where = f"{observed.name} in {module}" if module else observed.name
        for finding in _findings(observed, trained.get(operator)):
            yield replace(finding, where=where, file=file, line=line)


def _findings(observed: Observed, trained: Observed | None) -> Iterator[Finding]:
    """Yield findings without their place; only the first of those that have the same cause."""
    operator = observed.operator
    if observed.written:
        names = list(observed.written)
        yield SCHEMA.error(
            "",
            f"The operator modifies its argument {few(names)}, and its schema does not declare it.",
            f"Declare it: `{writing(operator, names)}`. Or write to a copy: `{names[0]} = {names[0]}.clone()`.",
        )
    elif observed.aliased:
        yield SCHEMA.error(
            "",
            f"The operator returns memory of its argument {next(iter(observed.aliased))}. Its schema declares a new "
            "tensor.",
            "Return a copy from the operator: `result.clone()`.",
        )
    else:
        yield from _refused_by_opcheck(observed)
    if trained is not None and trained.differentiated:
        problem = _opcheck(trained, ("test_autograd_registration",), grad=True)
        if problem and _opcheck(trained, ("test_aot_dispatch_static",), grad=True):
            message = "The gradient of this operator is lost when the program is compiled."
            yield GRADIENTS.error("", message, f"Register its backward.\n{autograd(operator)}", torch_says=problem)


def _refused_by_opcheck(observed: Observed) -> Iterator[Finding]:
    problem = _opcheck(observed, ("test_schema",))
    if problem:
        fix = f"Declare in its schema what it does: `{observed.operator._schema}`."
        yield SCHEMA.error("", "torch.library.opcheck rejects this operator.", fix, torch_says=problem)
        return
    problem = _opcheck(observed, ("test_faketensor",))
    if "Stride mismatch" in problem:  # other shapes and dtypes show when the program runs
        yield FAKE.warning(
            "",
            "The fake kernel of this operator gives other strides than the operator.",
            f"Return `.contiguous()` from the operator, or change its fake kernel.\n{fake_kernel(observed.operator)}",
            torch_says=problem,
        )


def _opcheck(observed: Observed, tests: tuple[str, ...], *, grad: bool = False) -> str:
    """Return what torch.library.opcheck reports for the arguments that were seen; empty if it accepts them."""
    args, kwargs = distinct((observed.args, observed.kwargs))
    with global_state_kept(), torch.set_grad_enabled(grad):
        try:
            outcomes = torch.library.opcheck(observed.operator, args, kwargs, test_utils=tests, raise_exception=False)
        except Exception as error:
            return exception_text(error, 300)
    refused: list[Any] = [outcome for outcome in outcomes.values() if isinstance(outcome, BaseException)]
    return exception_text(refused[0], 300) if refused else ""


STAGE = Stage(run, rules=(SCHEMA, FAKE, GRADIENTS), after=("export",), every_mode=False)
