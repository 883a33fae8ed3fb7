"""Lower the program to a backend, run it there, and compare its outputs with those of the eager module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, summary
from pytest_exportready.analysis.execution.float64_reference import compare_by_float64
from pytest_exportready.analysis.execution.input_variants import resized
from pytest_exportready.analysis.execution.machine_faults import fault_in
from pytest_exportready.analysis.execution.pytree import flatten, tensors, unflatten
from pytest_exportready.analysis.execution.silence import silent
from pytest_exportready.analysis.execution.symbolic_sizes import sizes_at, symbolic_sizes
from pytest_exportready.analysis.execution.trial import Facts, Observation, Trial
from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong, in_child
from pytest_exportready.analysis.processes.loader import load
from pytest_exportready.analysis.processes.loader_client import LOADER, LoaderGone
from pytest_exportready.analysis.processes.saved_program import OUTPUTS, PROGRAM, name_of, requests
from pytest_exportready.analysis.processes.warm_up import rehearse
from pytest_exportready.analysis.program.nodes import calls, on_cpu, owner, source
from pytest_exportready.analysis.source.user_frames import chain, user_place
from pytest_exportready.analysis.torch_internals.cuda import forks_can_use_cuda
from pytest_exportready.analysis.torch_internals.programs import failed_operator
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._stage import SkipStage, Stage, StageInfrastructure

Leaves = list[Any]
"""The flat outputs of one call; a backend may leave out None."""

Work = Callable[[ExportedProgram, list[Call], Path], list[Leaves]]
"""A function of a module that lowers a program and returns its outputs; it keeps its files in a folder."""

T = TypeVar("T")
SECONDS = 1800.0  # for lowering and running
_OPERATOR = re.compile(
    r"OpOverload\(op='(?P<op>\w+\.\w+)', overload='(?P<overload>\w+)'\)"
    r"|(?<![\w.])(?:torch\.ops\.)?(?P<whole>(?!torch\b)\w+\.\w+\.(?:default|Tensor\w*|Scalar\w*|int\w*|dim\w*|out))\b"
)


class LoweringFailed(Exception):
    """A program cannot be lowered, or not be run afterwards."""

    def __init__(self, reason: str, operator: str = "", file: str = "", line: int = 0) -> None:
        super().__init__(reason, operator, file, line)
        self.reason = reason
        self.operator = operator  # of the decomposed program, such as ``aten.add.Tensor``; empty if unknown
        self.file, self.line = file, line  # of user code; empty and 0 if unknown

    @classmethod
    def because_of(cls, error: Exception) -> LoweringFailed:
        causes = list(reversed(chain(error)))
        known = [failed_operator(cause) or operator_in(str(cause)) for cause in causes]
        return cls(exception_text(causes[0]), next(filter(None, known), ""), *user_place(error))


@dataclass(frozen=True)
class Lowered:
    """The outputs of a lowered program."""

    outputs: list[Leaves]  # for each call
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Lowering:
    """A backend to which programs are lowered."""

    rule: Rule
    backend: str
    fix: str  # if lowering fails; ``{operator}`` stands for the operator at which it fails

    def compare(self, trial: Trial, lower: Callable[[list[Call]], Lowered]) -> Iterator[Observation]:
        """Compare the lowered program with the eager module on the example and, if sizes are dynamic, at another size.

        Args:
            lower: runs each call from the exported state; raises LoweringFailed.
        """
        sequence = [trial.call, *_at_other_size(trial)]
        try:
            lowered = lower(sequence)
        except LoweringFailed as error:
            yield self._failed(trial, error)
            return
        yield lowered.facts
        results: list[Comparison] = []
        for call, leaves in zip(sequence, lowered.outputs, strict=True):
            expected = trial.reference.output(call)
            actual = _in_structure_of(expected, leaves)
            result = compare_by_float64(trial.reference.module, [call], expected, actual, trial.tolerance)
            results.append(result)
            if not result.agree:
                what = "the example inputs" if len(results) == 1 else f"inputs of shape {_shapes(call)}"
                yield self.rule.error(
                    result.where,
                    f"After lowering to {self.backend}, differs from the eager module on {what}{trial.in_mode}: "
                    f"{result.problem}.",
                    "Replace the operator that is lowered incorrectly. Pass `tolerance=` only if this error is "
                    "acceptable.",
                )
                break
        yield summary(results)

    def _failed(self, trial: Trial, error: LoweringFailed) -> Finding:
        assert trial.program is not None
        name = error.operator
        node = _node(trial.program, name) if name else None
        file, line = source(node) if node is not None else (error.file, error.line)
        at = f" at `{name}`" if name else ""
        return self.rule.error(
            owner(node) if node is not None else "",
            f"Lowering to {self.backend} failed{trial.in_mode}{at}.",
            self.fix.format(operator=f"`{name}`" if name else "the operator at which it fails"),
            file=file,
            line=line,
            torch_says=error.reason,
        )


def lowering_stage(
    name: str, run: Callable[[Trial], Iterable[Observation]], rule: Rule, tools: Callable[[], object] = lambda: None
) -> Stage:
    """Return the stage that runs if the case has ``lower=[name]``."""
    return Stage(
        run, (rule,), after=("parity",), asked=lambda trial: name in trial.options.lower, opt_in="lower", tools=tools
    )


def isolated_outputs(trial: Trial, work: Work, calls: list[Call], folder: Path) -> list[Leaves]:
    """Return the outputs that ``work`` computes in another process, so that a crash does not end this one.

    That is a forked child. If CUDA is in use here, for the program or otherwise, a child may fail because of it: the
    program is then saved, and lowered by the loader process.

    Raises:
        LoweringFailed: ``work`` raised an exception, or the process crashed.
        StageInfrastructure: ``work`` took longer than SECONDS, or the loader process ended.
    """
    program = trial.program
    assert program is not None
    try:
        if on_cpu(program) and forks_can_use_cuda():
            rehearse()
            failed = in_child(lambda: _lower(work, program, calls, folder), SECONDS)
        else:
            failed = _lower_saved_program(trial, work, calls, folder)
    except LoaderGone as error:
        raise StageInfrastructure(str(error), "Run it again; free memory if this persists.") from error
    except TookTooLong as error:
        fix = "Use a faster machine, or leave it out of `lower=`."
        raise StageInfrastructure(f"lowering {error}", fix) from error
    except (ProcessDied, RuntimeError) as error:
        raise fault_in(str(error)) or LoweringFailed(str(error)) from error
    if failed:
        fault = fault_in(failed["reason"])
        raise fault or LoweringFailed(**failed)
    outputs: list[Leaves] = torch.load(folder / OUTPUTS, weights_only=True)
    return outputs


def lower_saved(request: dict[str, Any]) -> dict[str, Any]:
    """Lower a saved program; the request names a ``Work``."""
    return _lower(resolve_name(request["work"]), *load(request), Path(request["folder"]))


def _lower_saved_program(trial: Trial, work: Work, calls: list[Call], folder: Path) -> dict[str, Any]:
    assert trial.program is not None
    try:
        torch.export.save(trial.program, folder / PROGRAM)
    except Exception as error:
        raise SkipStage("the program cannot be saved, and this process, in which CUDA is in use, forks none") from error
    reply: dict[str, Any] = {}
    for request in requests(trial, folder, calls, lower_saved, work=name_of(work)):
        reply = LOADER.ask(request, SECONDS)
        if "error" not in reply:
            return reply
    raise LoweringFailed(reply["error"])


def _lower(work: Work, program: ExportedProgram, calls: list[Call], folder: Path) -> dict[str, Any]:
    """Write the outputs to ``folder``; return the arguments of a LoweringFailed, empty without one."""
    try:
        torch.save(quietly(lambda: work(program, calls, folder)), folder / OUTPUTS)
    except LoweringFailed as failed:
        return vars(failed)
    return {}


def quietly(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, run without gradients, warnings, logs and prints.

    Raises:
        LoweringFailed: ``work`` raised an exception.
    """
    with torch.no_grad(), silent():
        try:
            return work()
        except Exception as error:
            raise LoweringFailed.because_of(error) from error


def import_extra(extra: str, load: Callable[[], object]) -> None:
    """Import the packages of an extra once, so that not each child imports them.

    Raises:
        StageInfrastructure: ``load`` raised an exception.
    """
    try:
        quietly(load)
    except LoweringFailed as error:
        problem = f"the extra [{extra}] is installed but does not work: {error.reason}"
        fix = f"Run `pip install --upgrade 'pytest-exportready[{extra}]'`, with the torch that it was built for."
        raise StageInfrastructure(problem, fix) from error


def _node(program: ExportedProgram, operator: str) -> torch.fx.Node | None:
    """Return the first call of ``operator`` in the program, or in the decomposed one."""
    for make in (lambda: program, program.run_decompositions):
        with suppress(Exception), silent():
            return next(node for node in calls(make()) if str(node.target) == operator)
    return None


def operator_in(text: str) -> str:
    """Return the first operator that a text names, such as ``aten.add.Tensor``; empty if there is none."""
    found = _OPERATOR.search(text)
    if found is None:
        return ""
    return found["whole"] or f"{found['op']}.{found['overload']}"


def _at_other_size(trial: Trial) -> list[Call]:
    """Return the example with every dynamic dimension at another size that module and program accept; at most one."""
    assert trial.program is not None
    if trial.case.stateful_calls:
        return []
    leaves = flatten(trial.call)[0]
    sizes = symbolic_sizes(trial.program)
    example = {size: leaves[leaf].shape[dim] for (leaf, dim), size in sizes.items() if size.is_symbol}
    for factor, step in product((1, 2), (1, 2, -1)) if example else ():
        values = {symbol: size * factor + step * (factor == 1) for symbol, size in example.items()}
        other = resized(trial.call, sizes_at(sizes, values))
        try:
            trial.reference.output(other)
            trial.running.outputs([other])
        except Exception:
            continue
        return [other]
    return []


def _in_structure_of(expected: Any, leaves: Leaves) -> Any:
    """Return ``leaves`` in the structure of ``expected``: compiled code returns numbers as tensors, ONNX omits None."""
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


def _shapes(call: Call) -> str:
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors(call))
