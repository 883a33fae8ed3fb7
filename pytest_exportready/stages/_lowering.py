"""What a program was lowered to gives what the trained module gives; shared by the stages that lower it."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from itertools import product
from typing import Any, TypeVar

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, summary
from pytest_exportready.analysis.execution.float64_reference import compare_by_float64
from pytest_exportready.analysis.execution.input_variants import resized
from pytest_exportready.analysis.execution.pytree import flatten, unflatten
from pytest_exportready.analysis.execution.trial import Facts, Observation, Trial
from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong, in_child
from pytest_exportready.analysis.processes.warm_up import rehearse
from pytest_exportready.analysis.program.nodes import calls, owner, source
from pytest_exportready.analysis.source.user_frames import chain, user_place
from pytest_exportready.analysis.torch_internals.programs import failed_operator
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._stage import StageInfrastructure

Leaves = list[Any]
"""The flat outputs of one call; None is among them or left out."""

T = TypeVar("T")
SECONDS = 1800.0  # for lowering and running
_OPERATOR = re.compile(
    r"OpOverload\(op='(?P<op>\w+\.\w+)', overload='(?P<overload>\w+)'\)"
    r"|(?<![\w.])(?:torch\.ops\.)?(?P<whole>(?!torch\b)\w+\.\w+\.(?:default|Tensor\w*|Scalar\w*|int\w*|dim\w*|out))\b"
)


class LoweringFailed(Exception):
    """Why a program could not be lowered or run then.

    operator: such as ``aten.add.Tensor``, of the decomposed program; file, line: of the user's source. Empty and 0
    where unknown.
    """

    def __init__(self, reason: str, operator: str = "", file: str = "", line: int = 0) -> None:
        super().__init__(reason, operator, file, line)
        self.reason, self.operator, self.file, self.line = reason, operator, file, line

    @classmethod
    def because_of(cls, error: Exception) -> LoweringFailed:
        causes = list(reversed(chain(error)))
        known = [failed_operator(cause) or operator_in(str(cause)) for cause in causes]
        return cls(exception_text(causes[0]), next(filter(None, known), ""), *user_place(error))


@dataclass(frozen=True)
class Lowered:
    """What a lowered program computed."""

    outputs: list[Leaves]  # the leaves of the output of each call
    facts: Facts = field(default_factory=dict)  # what was measured


def prove(
    trial: Trial, rule: Rule, what: str, advice: str, lower: Callable[[list[Call]], Lowered]
) -> Iterator[Observation]:
    """Compare the lowered program with the trained module on the example and, if sizes are dynamic, at another size.

    Args:
        what: the lowered program in words.
        advice: the fix if it cannot be lowered; ``{operator}`` stands for the operator at which lowering stops.
        lower: runs each call from the state that was exported; raises LoweringFailed.
    """
    sequence = [(trial.case.args, dict(trial.case.kwargs)), *_other_size(trial)]
    try:
        lowered = lower(sequence)
    except LoweringFailed as error:
        yield _failed(trial, rule, what, advice, error)
        return
    yield lowered.facts
    results: list[Comparison] = []
    for number, (call, leaves) in enumerate(zip(sequence, lowered.outputs, strict=True)):
        expected = trial.reference.output(call)
        actual = _like(expected, leaves)
        result = compare_by_float64(trial.reference.module, [call], expected, actual, trial.tolerance)
        results.append(result)
        if not result.agree:
            on = f"inputs of another size, {_sizes(call)}" if number else "the example inputs"
            yield rule.error(
                result.where,
                f"{what} ({trial.mode}) and the trained module disagree on {on}: {result.problem}",
                "tolerance={...} only where this error is acceptable; else leave the operator that is lowered wrongly "
                "out of forward",
            )
            break
    yield summary(results)


def apart(work: Callable[[], None]) -> None:
    """Run ``work`` quietly in a forked child, where a crash of compiled code and what it sets hurt nobody; here where
    CUDA is in use, which a forked child cannot. Raises LoweringFailed, StageInfrastructure after SECONDS.
    """
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        quietly(work)
        return
    rehearse()

    def attempt() -> dict[str, Any] | None:
        try:
            quietly(work)
        except LoweringFailed as failed:
            return {"reason": failed.reason, "operator": failed.operator, "file": failed.file, "line": failed.line}
        return None

    try:
        failed = in_child(attempt, SECONDS)
    except TookTooLong as error:
        raise StageInfrastructure(str(error), "run it on a faster machine, or leave it out of lower=") from error
    except (ProcessDied, RuntimeError) as error:
        raise LoweringFailed(str(error)) from error
    if failed is not None:
        raise LoweringFailed(**failed)


def quietly(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, run without gradients, warnings, logs and prints.

    Raises:
        LoweringFailed: ``work`` raised something.
    """
    with torch.no_grad(), _silence():
        try:
            return work()
        except Exception as error:
            raise LoweringFailed.because_of(error) from error


@contextmanager
def _silence() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _failed(trial: Trial, rule: Rule, what: str, advice: str, error: LoweringFailed) -> Finding:
    assert trial.program is not None
    name = error.operator
    node = _node(trial.program, name) if name else None
    file, line = source(node) if node is not None else (error.file, error.line)
    return rule.error(
        owner(node) if node is not None else "",
        f"{what} ({trial.mode}) cannot be had{f' at {name}' if name else ''}",
        advice.format(operator=name or "the operator at which it stops"),
        file=file,
        line=line,
        torch_says=error.reason,
    )


def _node(program: ExportedProgram, operator: str) -> torch.fx.Node | None:
    """The first call of ``operator`` in the program, or in the decomposed one."""
    for make in (lambda: program, program.run_decompositions):
        with suppress(Exception), _silence():
            return next(node for node in calls(make()) if str(node.target) == operator)
    return None


def operator_in(text: str) -> str:
    """The first operator that a text names, such as ``aten.add.Tensor``; empty if there is none."""
    found = _OPERATOR.search(text)
    if found is None:
        return ""
    return found["whole"] or f"{found['op']}.{found['overload']}"


def _other_size(trial: Trial) -> list[Call]:
    """The example with every dynamic dimension at another size that module and program take; empty if none is."""
    assert trial.program is not None
    if trial.case.stateful_calls:
        return []
    call: Call = (trial.case.args, dict(trial.case.kwargs))
    leaves = flatten(call)[0]
    nodes = {node.name: node for node in trial.program.graph.nodes if node.op == "placeholder"}
    specs = [spec for spec in trial.program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    sizes = {
        (leaf, dim): size.node.expr
        for leaf, spec in enumerate(specs)
        if spec.arg.name in nodes
        for dim, size in enumerate(getattr(nodes[spec.arg.name].meta.get("val"), "shape", ()))
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    }
    example = {size: leaves[leaf].shape[dim] for (leaf, dim), size in sizes.items() if size.is_symbol}
    for factor, step in product((1, 2), (1, 2, -1)) if example else ():
        values = {symbol: size * factor + step * (factor == 1) for symbol, size in example.items()}
        known = {at: size for at, size in sizes.items() if size.free_symbols <= values.keys()}
        other = resized(call, {at: int(size.subs(values)) for at, size in known.items()})
        try:
            trial.reference.output(other)
            trial.running.outputs([other])
        except Exception:
            continue
        return [other]
    return []


def _like(expected: Any, leaves: Leaves) -> Any:
    """``leaves`` in the structure of ``expected``: compiled code returns numbers as tensors, ONNX leaves None out."""
    wanted, spec = flatten(expected)
    given = list(leaves)
    if len(given) < len(wanted):
        rest = iter(given)
        given = [None if leaf is None else next(rest, None) for leaf in wanted]
    if len(given) != len(wanted):
        return given
    return unflatten([_number(a, b) for a, b in zip(wanted, given, strict=True)], spec)


def _number(expected: Any, actual: Any) -> Any:
    plain = isinstance(expected, (bool, int, float)) and isinstance(actual, torch.Tensor) and actual.numel() == 1
    return type(expected)(actual.item()) if plain else actual


def _sizes(call: Call) -> str:
    return ", ".join(str(tuple(leaf.shape)) for leaf in flatten(call)[0] if isinstance(leaf, torch.Tensor))
