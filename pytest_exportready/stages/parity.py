"""The exported program gives what the trained module gives: on the example, on more inputs, on fresh random
ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, Tolerance, compare, has_nan, summary
from pytest_exportready.analysis.execution.detectors.ambient_reads import INPUTS_ONLY, outside_reads
from pytest_exportready.analysis.execution.detectors.baked_constants import baked_at
from pytest_exportready.analysis.execution.float64_reference import compare_by_float64
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.perturbed_weights import perturbed_outputs
from pytest_exportready.analysis.execution.pytree import map_tensors
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._stage import Stage

AGREES = Rule(
    "ER501",
    "program_agrees",
    "The exported program must give what the trained eager module gives in eval mode: structure, shapes, dtypes, "
    "devices, NaN and Inf places and integers exactly, floating point to the bit or within the limits of "
    "tolerance.py. Where those are exceeded and the case gives none of its own, the program may be up to 3 times as "
    "far from the module in float64 as the module itself is (reference.py).",
)
RUNS = Rule(
    "ER502",
    "program_runs",
    "The exported program must run on every input on which the trained module runs.",
)
NOT_VACUOUS = Rule(
    "ER503",
    "comparison_can_fail",
    "A comparison must be able to fail. An all-zero output and the output for another input have to be rejected "
    "by the same comparison (to the bit, or within the tolerance); where they are accepted, agreement proves "
    "nothing.",
)


@dataclass(frozen=True)
class _Vacuous:
    """A comparison that cannot fail. passes: a wrong output that it accepts."""

    passes: str
    fix: str

    def error(self) -> Finding:
        message = f"{self.passes} passes the same comparison: it proves nothing"
        return NOT_VACUOUS.error("output", message, self.fix)

    def warning(self) -> Finding:
        """The program is proved, though not with the weights that were given."""
        message = f"{self.passes} passes the same comparison; with other weights, where a comparison can fail, "
        fix = "judge the trained weights: these tell one input from no other"
        return NOT_VACUOUS.warning("output", f"{message}the program agrees", fix)


_KEPT = (
    "compute it with torch operators, or make what is called there one: "
    '@torch.library.custom_op("mylib::name", mutates_args=()) and register_fake'
)


_FIXED = re.compile(r"Guard failed: (\w+)\.size\(\)\[(\d+)\]")
_UNFIXED = (
    "declare it dynamic (dynamic_shapes=), and take no Python number from it in forward: no int(), math or f-string; "
    "more_inputs of other sizes are meant for dimensions that are dynamic"
)


def run(trial: Trial) -> Iterator[Observation]:
    tolerance = trial.tolerance
    results: list[Comparison] = []
    answers: list[Any] = []  # the reference's answers, that to the example first
    for what, calls in _sequences(trial):
        try:
            expected = trial.reference.outputs(calls)
        except Exception as error:
            yield _eager_fails(what, error)
            continue
        answers += expected
        found = yield from _compare(trial, what, calls, expected, tolerance, results)
        if found:
            break
    else:
        fresh, answer = another(trial, (trial.case.args, trial.case.kwargs))
        if fresh is not None and not trial.case.stateful_calls:
            answers.append(answer)
            yield from _compare(trial, "fresh random inputs", [fresh], [answer], tolerance, results)
    yield summary(results)
    if answers and results and all(r.agree for r in results):
        empty = _vacuous(trial, answers, lambda expected, answer: _accepts(results, expected, answer, tolerance))
        if empty is not None:
            yield empty.warning() if _agrees_when_shaken(trial, tolerance) else empty.error()


def _sequences(trial: Trial) -> Iterator[tuple[str, list[Call]]]:
    """What is compared: with state, one sequence of calls; without, each input by itself."""
    case = trial.case
    example: Call = (case.args, case.kwargs)
    more: list[Call] = [(tuple(args), kwargs) for args, kwargs in case.more_inputs]
    if case.stateful_calls:
        yield "the sequence of calls", [example, *more]
        return
    yield "the example inputs", [example]
    for position, call in enumerate(more):
        yield f"more_inputs[{position}]", [call]


def another(trial: Trial, example: Call) -> tuple[Call | None, Any]:
    """Fresh inputs that the trained module accepts with an answer free of NaN, and the answer; None where there are
    none."""
    for call in variations(example, seed=1):
        try:
            answer = trial.reference.output(call)
        except Exception:
            continue
        if not has_nan(answer):
            return call, answer
    return None, None


def _compare(
    trial: Trial,
    what: str,
    calls: list[Call],
    answers: list[Any],
    tolerance: Tolerance,
    results: list[Comparison],
) -> Generator[Finding, None, bool]:
    try:
        given = trial.running.outputs(calls)
    except Exception as error:
        failed = trial.running.failing(calls)
        file, line = source(failed) if failed is not None else user_place(error)
        at = f" at {operator_name(failed)}" if failed is not None else ""
        message = f"the program ({trial.mode}) fails on {what}{at}, where the module runs"
        fixed = _FIXED.search(str(error))
        yield RUNS.error(
            f"{fixed[1]}.shape[{fixed[2]}]" if fixed else owner(failed) if failed is not None else "",
            message,
            _UNFIXED if fixed else "look at what forward does there that the trace could not see",
            file=file,
            line=line,
            torch_says=exception_text(error),
        )
        return True
    for number, (expected, actual) in enumerate(zip(answers, given, strict=True)):
        result = compare_by_float64(trial.reference.module, calls[: number + 1], expected, actual, tolerance)
        results.append(result)
        if not result.agree:
            call = f", call {number + 1} of {len(calls)}" if len(calls) > 1 else ""
            example = (trial.case.args, trial.case.kwargs)
            baked = baked_at(trial.reference.module, example, calls[number], strict=trial.mode == "strict")
            why, (file, line), fix = (*baked, _KEPT) if baked else ("", ("", 0), _advice(trial))
            asked = None if baked else next(iter(outside_reads(lambda: trial.reference.outputs(calls))), None)
            if asked is not None:
                why, (file, line), fix = f"forward asks {asked.words}", (asked.file, asked.line), INPUTS_ONLY
            yield AGREES.error(
                result.where,
                f"the program ({trial.mode}) and the trained module disagree on {what}{call}: {result.problem}"
                + f"; {why}" * bool(why),
                fix,
                file=file,
                line=line,
            )
            return True
    return False


def _advice(trial: Trial) -> str:
    nested = [
        name
        for name, module in trial.reference.module.named_modules()
        if isinstance(module, nn.TransformerEncoder) and module.enable_nested_tensor
    ]
    if nested:
        return (
            f"nn.TransformerEncoder ({nested[0] or 'the root'}) takes a fast path in eager eval that zeroes "
            "padded positions: build it with enable_nested_tensor=False"
        )
    return (
        "look for Python state, branches on values or a mode that the trace froze; "
        "tolerance={...} only where this error is acceptable"
    )


def _accepts(results: list[Comparison], expected: Any, answer: Any, tolerance: Tolerance) -> bool:
    """Whether a wrong answer would have passed: within the user's tolerance, else to the bit where
    everything was."""
    result = compare(expected, answer, tolerance)
    exact = tolerance == Tolerance() and all(r.bitwise for r in results)
    return result.bitwise if exact else result.agree


def _vacuous(trial: Trial, answers: list[Any], accepted: Callable[[Any, Any], bool]) -> _Vacuous | None:
    if all(accepted(answer, map_tensors(torch.zeros_like, answer)) for answer in answers):
        return _Vacuous("an all-zero output", "give inputs with a non-zero answer, or a tighter tolerance")
    tried = 0
    for answer in _other_answers(trial, answers[1:]):
        tried += 1
        if not accepted(answers[0], answer):
            return None
    fix = "give more_inputs that change the answer, or a tighter tolerance"
    return _Vacuous(f"the output for {tried} other inputs", fix) if tried else None


def _agrees_when_shaken(trial: Trial, tolerance: Tolerance) -> bool:
    """Whether the same program agrees with the module under other weights, and there a comparison can fail."""
    example: Call = (trial.case.args, trial.case.kwargs)
    other = next(variations(example, seed=1), None)
    if other is None or trial.case.stateful_calls or tolerance != Tolerance():
        return False
    try:
        state, expected = perturbed_outputs(trial.reference, [example, other])
        results = [
            compare(a, b, tolerance)
            for a, b in zip(expected, trial.running.outputs([example, other], state), strict=True)
        ]
    except Exception:
        return False
    if not all(result.agree for result in results):
        return False
    wrong = [map_tensors(torch.zeros_like, expected[0]), expected[1]]
    return not any(_accepts(results, expected[0], answer, tolerance) for answer in wrong)


def _other_answers(trial: Trial, known: list[Any]) -> Iterator[Any]:
    """Answers of the trained module to other inputs: those it has given, then to more."""
    yield from known
    more = [(tuple(args), kwargs) for args, kwargs in trial.case.more_inputs if trial.case.stateful_calls]
    for call in [*more, *variations((trial.case.args, trial.case.kwargs), seed=2)]:
        try:
            answer = trial.reference.output(call)
        except Exception:
            continue
        yield answer


def _eager_fails(what: str, error: Exception) -> Finding:
    file, line = user_place(error)
    message, says = f"the trained module does not run on {what}", exception_text(error)
    return RUNS.error("", message, "give inputs of the same kind as the example", file=file, line=line, torch_says=says)


STAGE = Stage(run, rules=(AGREES, RUNS, NOT_VACUOUS), after=("eager", "export"))
