"""The trained module itself: it runs, repeats itself, does not change by being used, and gives the recorded
output."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pytest_exportready.failure import user_place
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.module.preserve import Change
from pytest_exportready.proof.pytree import distinct, named_leaves
from pytest_exportready.proof.tolerance import Tolerance, compare
from pytest_exportready.stage import Stage, Trial
from pytest_exportready.text import exception_text

RUNS = Rule(
    "ER110",
    "eager_runs",
    "The trained module, in eval mode and under no_grad, must run on the example inputs before anything is exported.",
)
REPEATS = Rule(
    "ER111",
    "eager_repeats",
    "Two calls with the same input must give the same output. Noise, dropout that is always on, or a shuffled "
    "order in an eval forward make every later comparison meaningless: a seeded check hides it, an unseeded one "
    "blames the export.",
)
STATELESS = Rule(
    "ER112",
    "eager_keeps_no_state",
    "In eval mode an answer must not depend on what was asked before. A Python counter, a re-assigned buffer or a"
    " running statistic that is also updated in eval is frozen at one value, or dropped, by torch.export. A "
    "module that is meant to have state (a cache) says so with ExportCase(allow_mutation=True, "
    "stateful_calls=True).",
)
GOLDEN = Rule(
    "ER113",
    "matches_golden",
    "The module must still give the output that was recorded at the end of training (ExportCase.golden). A broken"
    " weight tie, a partly loaded checkpoint or an autocast wrapper left on forward changes it, and the exported "
    "program agrees with the changed module.",
)
NUMBERS = Rule(
    "ER114",
    "eager_has_no_nan",
    "An output with NaN proves nothing: a program that returns NaN everywhere would agree with it.",
)


_MUCH_LATER = 10**6  # calls


def run(trial: Trial) -> Iterator[Finding]:
    case, truth = trial.case, trial.truth
    call = (case.args, case.kwargs)
    try:
        (first, second), changes = truth.observe([call, call])
    except Exception as error:
        truth.error = error
        file, line = user_place(error)
        message = f"the trained module does not run on the example inputs: {exception_text(error)}"
        yield RUNS.error("", message, "make model.eval()(*args, **kwargs) run first", file=file, line=line)
        return
    nan = [path for path, leaf in named_leaves(first) if isinstance(leaf, torch.Tensor) and _has_nan(leaf)]
    if nan:
        message = "the trained module returns NaN on the example inputs; equal NaNs prove nothing"
        yield NUMBERS.error(
            f"output{nan[0]}", message, "give example inputs with a finite answer, or mend the training"
        )
    repeated = compare(first, second, Tolerance())
    trial.facts["eager_bitwise"] = repeated.bitwise
    if not repeated.agree and not nan and not case.allow_mutation:
        yield _unstable(trial, first, changes)
    elif not nan and not case.allow_mutation:
        yield from _counting(trial, first, changes)
    if case.golden is not None:
        against = compare(*_aligned(case.golden, first), Tolerance(relative=case.golden_tolerance))
        trial.facts["golden_largest"] = against.largest
        if not against.agree:
            yield GOLDEN.error(
                _patched_forward(trial),
                f"the module no longer gives the output recorded at the end of training: {against.problem}",
                "compare the state dict key by key with the checkpoint; look for a broken weight tie, a "
                "missing key or an "
                "autocast wrapper left on forward",
            )


def _unstable(trial: Trial, first: object, changes: list[Change]) -> Finding:
    """Told apart by starting again: the same first answer means state, another one means randomness."""
    call = (trial.case.args, trial.case.kwargs)
    if compare(first, trial.truth.answer(call), Tolerance()).agree:
        names = ", ".join(dict.fromkeys(change.where for change in changes[:5])) or "state outside the module"
        return STATELESS.error(
            names,
            "the second of two equal calls gives another output: the module changes itself in eval",
            f"guard the update of {names} with `if self.training:`, or declare "
            f"ExportCase(allow_mutation=True, "
            "stateful_calls=True)",
        )
    return REPEATS.error(
        "",
        "two equal calls give different outputs: the eval forward is random",
        "guard the noise or dropout with `if self.training:` (F.dropout needs training=self.training)",
    )


def _counting(trial: Trial, first: object, changes: list[Change]) -> Iterator[Finding]:
    """Python numbers that every call moves, and on which the answer will depend although it did not yet."""
    call = (trial.case.args, trial.case.kwargs)
    for change in changes:
        if type(change.now) not in (int, float):
            continue
        try:
            later = trial.truth.answer_with(change.where, change.now + _MUCH_LATER, call)
        except Exception:
            continue  # no number for any value, such as a place in a list
        if not compare(first, later, Tolerance()).agree:
            yield STATELESS.error(
                change.where,
                "every call changes this Python number, and the answer depends on it later on: the program keeps "
                "one value",
                f"guard the update of {change.where} with `if self.training:`, or decide outside forward",
            )


def _patched_forward(trial: Trial) -> str:
    patched = [name for name, module in trial.truth.module.named_modules() if "forward" in module.__dict__]
    return ", ".join(f"{name}.forward" if name else "forward" for name in patched[:3]) + (
        " (replaced on the instance)" if patched else ""
    )


def _aligned(golden: object, output: object) -> tuple[list[object], list[object]]:
    """Leaves of both: by path where they have the same paths (a dict may be ordered otherwise), else in order."""
    recorded, given = dict(named_leaves(distinct(golden))), dict(named_leaves(output))
    paths = given if given.keys() == recorded.keys() else recorded
    return [recorded[path] for path in paths], list(given.values())


def _has_nan(leaf: torch.Tensor) -> bool:
    return bool((leaf.is_floating_point() or leaf.is_complex()) and leaf.isnan().any())


STAGE = Stage(run, rules=(RUNS, REPEATS, STATELESS, GOLDEN, NUMBERS), every_mode=False, every_rank=True)
