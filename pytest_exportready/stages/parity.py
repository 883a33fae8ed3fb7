"""The exported program gives the outputs of the eager module: on the example, on more inputs, on random inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, Tolerance, compare, summary
from pytest_exportready.analysis.execution.detectors.ambient_reads import INPUTS_ONLY, ambient_reads
from pytest_exportready.analysis.execution.detectors.baked_constants import baked_constant
from pytest_exportready.analysis.execution.float64_reference import compare_by_float64
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.perturbed_weights import perturbed_outputs
from pytest_exportready.analysis.execution.pytree import map_tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._parity_rules import AGREES, NOT_VACUOUS, RUNS
from pytest_exportready.stages._stage import Stage

_FIXED_SIZE = re.compile(r"Guard failed: (\w+)\.size\(\)\[(\d+)\]")
_DECLARE_DYNAMIC = (
    "Declare the dimension dynamic (`dynamic_shapes=`), and do not convert its size to a Python number in `forward` "
    "(`int()`, `math`, f-strings)."
)
_CHECK_PYTHON = "Check the Python code at this line: tracing does not record branches on values or Python side effects."
_USE_OPERATORS = (
    "Compute it with torch operators, or make the function that is called here an operator: "
    '`@torch.library.custom_op("mylib::name", mutates_args=())` and `register_fake`.'
)
_CHECK_FORWARD = (
    "Check `forward` for Python state, branches on values and modes that tracing fixed. Pass `tolerance=` only if this "
    "error is acceptable."
)


def run(trial: Trial) -> Iterator[Observation]:
    results: list[Comparison] = []
    outputs: list[Any] = []  # of the eager module, that for the example first
    finding: Finding | None = None
    for what, calls in _sequences(trial):
        try:
            expected = trial.reference.outputs(calls)
        except Exception as error:
            yield _eager_fails(what, error)
            continue
        outputs += expected
        compared, finding = _compare(trial, what, calls, expected)
        results += compared
        if finding is not None:
            yield finding
            break
    if finding is None and not trial.case.stateful_calls:
        accepted = trial.reference.first_accepted(variations(trial.call, seed=1))
        if accepted is not None:
            outputs.append(accepted[1])
            compared, finding = _compare(trial, "random inputs", [accepted[0]], [accepted[1]])
            results += compared
            if finding is not None:
                yield finding
    yield summary(results)
    if outputs and results and all(result.agree for result in results):
        vacuous = _vacuous(trial, outputs, lambda expected, output: _accepts(trial, results, expected, output))
        if vacuous is not None:
            yield vacuous.warning() if _agrees_with_perturbed_weights(trial) else vacuous.error()


def _sequences(trial: Trial) -> Iterator[tuple[str, list[Call]]]:
    """Yield what is compared: one sequence of calls if the module has state, else each input by itself."""
    if trial.case.stateful_calls:
        yield "the sequence of calls", [trial.call, *trial.more_calls]
        return
    yield "the example inputs", [trial.call]
    for position, call in enumerate(trial.more_calls):
        yield f"more_inputs[{position}]", [call]


def _eager_fails(what: str, error: Exception) -> Finding:
    file, line = user_place(error)
    return RUNS.error(
        "",
        f"The eager module raises an exception on {what}.",
        "Pass inputs that the eager module accepts.",
        file=file,
        line=line,
        torch_says=exception_text(error),
    )


def _compare(
    trial: Trial, what: str, calls: list[Call], expected: list[Any]
) -> tuple[list[Comparison], Finding | None]:
    """Compare the program with ``expected`` call by call, up to the first difference."""
    try:
        actual = trial.running.outputs(calls)
    except Exception as error:
        return [], _program_fails(trial, what, calls, error)
    results: list[Comparison] = []
    for number, outputs in enumerate(zip(expected, actual, strict=True)):
        upto = calls[: number + 1]
        results.append(compare_by_float64(trial.reference.module, upto, *outputs, trial.tolerance))
        if not results[-1].agree:
            place = f"{what}, call {number + 1} of {len(calls)}" if len(calls) > 1 else what
            return results, _differs(trial, place, calls, calls[number], results[-1])
    return results, None


def _program_fails(trial: Trial, what: str, calls: list[Call], error: Exception) -> Finding:
    node = trial.running.failing(calls)
    file, line = source(node) if node is not None else user_place(error)
    at = f" at `{operator_name(node)}`" if node is not None else ""
    where = owner(node) if node is not None else ""
    fixed = _FIXED_SIZE.search(str(error))
    return RUNS.error(
        f"{fixed[1]}.shape[{fixed[2]}]" if fixed else where,
        f"The exported program fails on {what}{trial.in_mode}{at}, where the eager module runs.",
        _DECLARE_DYNAMIC if fixed else _CHECK_PYTHON,
        file=file,
        line=line,
        torch_says=exception_text(error),
    )


def _differs(trial: Trial, what: str, calls: list[Call], call: Call, result: Comparison) -> Finding:
    why, (file, line), fix = _cause(trial, calls, call)
    return AGREES.error(
        result.where,
        f"The program differs from the eager module on {what}{trial.in_mode}: {result.problem}.{why}",
        fix,
        file=file,
        line=line,
    )


def _cause(trial: Trial, calls: list[Call], call: Call) -> tuple[str, tuple[str, int], str]:
    """Return why the program differs on ``call``, as a sentence or empty, with the user's line and the fix."""
    module = trial.reference.module
    baked = baked_constant(module, trial.call, call, strict=trial.mode == "strict")
    if baked is not None:
        return f" {baked[0]}", baked[1], _USE_OPERATORS
    read = next(iter(ambient_reads(lambda: trial.reference.outputs(calls))), None)
    if read is not None:
        return f" `forward` {read.words}.", (read.file, read.line), INPUTS_ONLY
    nested = [
        name or "the root"
        for name, part in module.named_modules()
        if isinstance(part, nn.TransformerEncoder) and part.enable_nested_tensor
    ]
    if nested:
        fix = f"Build nn.TransformerEncoder ({nested[0]}) with `enable_nested_tensor=False`"
        return "", ("", 0), f"{fix}: its fast path in eager mode zeroes padded positions."
    return "", ("", 0), _CHECK_FORWARD


@dataclass(frozen=True)
class _Vacuous:
    """A comparison that cannot fail."""

    passes: str  # a wrong output that it accepts
    fix: str

    def error(self) -> Finding:
        message = f"{self.passes} passes the same comparison, so agreement proves nothing."
        return NOT_VACUOUS.error("output", message, self.fix)

    def warning(self) -> Finding:
        return NOT_VACUOUS.warning(
            "output",
            f"{self.passes} passes the same comparison. With other weights, where the comparison can fail, it agrees.",
            "Run the case with trained weights: with these, every input gives the same output.",
        )


def _vacuous(trial: Trial, outputs: list[Any], accepted: Callable[[Any, Any], bool]) -> _Vacuous | None:
    if all(accepted(output, map_tensors(torch.zeros_like, output)) for output in outputs):
        return _Vacuous("An all-zero output", "Pass inputs that give a non-zero output, or a smaller `tolerance=`.")
    tried = 0
    for output in _other_outputs(trial, outputs[1:]):
        tried += 1
        if not accepted(outputs[0], output):
            return None
    fix = "Pass `more_inputs` that change the output, or a smaller `tolerance=`."
    return _Vacuous(f"The output for each of {tried} other inputs", fix) if tried else None


def _other_outputs(trial: Trial, known: list[Any]) -> Iterator[Any]:
    """Yield outputs of the eager module for other inputs, those in ``known`` first."""
    yield from known
    for call in [*(trial.more_calls if trial.case.stateful_calls else []), *variations(trial.call, seed=2)]:
        try:
            output = trial.reference.output(call)
        except Exception:
            continue
        yield output


def _accepts(trial: Trial, results: list[Comparison], expected: Any, output: Any) -> bool:
    """Return whether ``output`` would pass: bitwise if all results are and the user set no tolerance."""
    result = compare(expected, output, trial.tolerance)
    exact = trial.tolerance == Tolerance() and all(r.bitwise for r in results)
    return result.bitwise if exact else result.agree


def _agrees_with_perturbed_weights(trial: Trial) -> bool:
    """Return whether the program agrees with the module under other weights, where the comparison can fail."""
    other = next(variations(trial.call, seed=1), None)
    if other is None or trial.case.stateful_calls or trial.tolerance != Tolerance():
        return False
    calls = [trial.call, other]
    try:
        state, expected = perturbed_outputs(trial.reference, calls)
        actual = trial.running.outputs(calls, state)
        results = [compare(a, b, trial.tolerance) for a, b in zip(expected, actual, strict=True)]
    except Exception:
        return False
    if not all(result.agree for result in results):
        return False
    wrong = [map_tensors(torch.zeros_like, expected[0]), expected[1]]
    return not any(_accepts(trial, results, expected[0], output) for output in wrong)


STAGE = Stage(run, rules=(AGREES, RUNS, NOT_VACUOUS), after=("eager", "export"))
