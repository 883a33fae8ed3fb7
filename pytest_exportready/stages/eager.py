"""The trained module itself: it runs, repeats itself, does not change by being used, and gives the recorded
output."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare, has_nan
from pytest_exportready.analysis.execution.detectors.adapter_merge_flags import aligned, lying_flags
from pytest_exportready.analysis.execution.detectors.ambient_reads import INPUTS_ONLY, outside_reads
from pytest_exportready.analysis.execution.detectors.rng_location import random_line
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.execution.trial import EagerFailed, Observation, Trial
from pytest_exportready.analysis.module.patched_forward import replaced_forwards
from pytest_exportready.analysis.module.snapshot import Change
from pytest_exportready.analysis.source.bytecode import place_of_write
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.facts import EAGER_BITWISE, GOLDEN_LARGEST
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.wording import few
from pytest_exportready.stages._stage import Stage

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
    "eager_is_stateless",
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


def run(trial: Trial) -> Iterator[Observation]:
    case, reference = trial.case, trial.reference
    call = (case.args, case.kwargs)
    try:
        (first, second), changes = reference.observe([call, call])
    except Exception as error:
        yield EagerFailed(error)
        file, line = user_place(error)
        message, says = "the trained module does not run on the example inputs", exception_text(error)
        fix = "make model.eval()(*args, **kwargs) run first"
        yield RUNS.error("", message, fix, file=file, line=line, torch_says=says)
        return
    nan = [path for path, leaf in named_leaves(first) if has_nan(leaf)]
    if nan:
        message = "the trained module returns NaN on the example inputs; equal NaNs prove nothing"
        yield NUMBERS.error(
            f"output{nan[0]}", message, "give example inputs with a finite answer, or mend the training"
        )
    repeated = compare(first, second, Tolerance())
    yield {EAGER_BITWISE: repeated.bitwise}
    if not repeated.agree and not nan and not case.allow_mutation:
        yield _unstable(trial, first, changes)
    elif not nan and not case.allow_mutation:
        yield from _counting(trial, first, changes)
        yield from _remembering(trial, changes)
    if case.golden is not None:
        against = compare(*aligned(case.golden, first), Tolerance(relative=case.golden_tolerance))
        yield {GOLDEN_LARGEST: against.largest}
        if not against.agree:
            yield GOLDEN.error(
                _suspects(trial),
                f"the module no longer gives the output recorded at the end of training: {against.problem}",
                "compare the state dict key by key with the checkpoint; look for a broken weight tie, a "
                "missing key or an "
                "autocast wrapper left on forward",
            )


def _unstable(trial: Trial, first: object, changes: list[Change]) -> Finding:
    """Told apart by starting again: the same first answer means state, another one means randomness."""
    call = (trial.case.args, trial.case.kwargs)
    if compare(first, trial.reference.output(call), Tolerance()).agree:
        names = few(dict.fromkeys(change.where for change in changes), 5) or "state outside the module"
        file, line = _written_at(trial, changes)
        return STATELESS.error(
            names,
            "the second of two equal calls gives another output: the module changes itself in eval",
            f"guard the update of {names} with `if self.training:`, or declare "
            f"ExportCase(allow_mutation=True, "
            "stateful_calls=True)",
            file=file,
            line=line,
        )
    if _differs_with_one_seed(trial, call):
        read = next(iter(outside_reads(lambda: trial.reference.output(call))), None)
        asked = f"forward asks {read.words} at this line" if read else "it depends on what is outside of the module"
        return REPEATS.error(
            "",
            f"two equal calls give different outputs, although the random states are as they were: {asked}",
            INPUTS_ONLY,
            file=read.file if read else "",
            line=read.line if read else 0,
        )
    file, line = random_line(lambda: trial.reference.output(call))
    return REPEATS.error(
        "",
        "two equal calls give different outputs: the eval forward is random"
        + (", it draws random numbers at this line first" if file else ""),
        "guard the noise or dropout with `if self.training:` (F.dropout needs training=self.training)",
        file=file,
        line=line,
    )


def _differs_with_one_seed(trial: Trial, call: Call) -> bool:
    """Whether the answer is another each time, from the same random states of torch, Python and numpy."""
    with global_state_kept():
        first = trial.reference.output(call)
    with global_state_kept():
        second = trial.reference.output(call)
    return not compare(first, second, Tolerance()).agree


def _remembering(trial: Trial, changes: list[Change]) -> Iterator[Finding]:
    """A cache that one input fills and another is then answered from."""
    example = (trial.case.args, trial.case.kwargs)
    kept = list(dict.fromkeys(c.where for c in changes if type(c.now) not in (int, float)))
    if not kept:
        return
    for call in variations(example, seed=3):
        try:
            alone, later = trial.reference.output(call), trial.reference.outputs([example, call])[1]
        except Exception:
            continue
        if not compare(alone, later, Tolerance()).agree:
            file, line = _written_at(trial, [change for change in changes if change.where in kept])
            yield STATELESS.error(
                kept[0],
                f"the answer to an input depends on the input before it, through {few(kept)}: a cache that does not "
                "look at what it was made from",
                f"compute {few(kept)} anew in forward, or keep it under a key that says what it depends on",
                file=file,
                line=line,
            )
        return


def _counting(trial: Trial, first: object, changes: list[Change]) -> Iterator[Finding]:
    """Python numbers that every call moves, and on which the answer will depend although it did not yet."""
    call = (trial.case.args, trial.case.kwargs)
    for change in changes:
        if type(change.now) not in (int, float):
            continue
        try:
            later = trial.reference.output_with(change.where, change.now + _MUCH_LATER, call)
        except Exception:
            continue  # no number for any value, such as a place in a list
        if not compare(first, later, Tolerance()).agree:
            file, line = _written_at(trial, [change])
            yield STATELESS.error(
                change.where,
                "every call changes this Python number, and the answer depends on it later on: the program keeps "
                "one value",
                f"guard the update of {change.where} with `if self.training:`, or decide outside forward",
                file=file,
                line=line,
            )


def _written_at(trial: Trial, changes: list[Change]) -> tuple[str, int]:
    """Where forward assigns the first of ``changes`` that is an attribute of a module."""
    modules = dict(trial.reference.module.named_modules())
    for change in changes:
        owner, _, attribute = change.where.rpartition(".")
        if owner in modules and (place := place_of_write(type(modules[owner]), attribute))[0]:
            return place
    return "", 0


def _suspects(trial: Trial) -> str:
    """What may have changed the answer: a flag of adapters that lies, forwards that were replaced or decorated."""
    module = trial.reference.module
    lying = lying_flags(module, (trial.case.args, trial.case.kwargs), trial.case.golden, trial.case.golden_tolerance)
    narrowed = [
        f"{name} ({tensor.dtype}, {shipped.dtype} in the checkpoint)"
        for name, tensor in module.state_dict().items()
        if isinstance(shipped := (trial.case.checkpoint or {}).get(name), torch.Tensor)
        and shipped.dtype.itemsize > tensor.dtype.itemsize
    ]
    return ", ".join([*(f"{name} (says merged)" for name in lying), *replaced_forwards(module), *narrowed][:3])


STAGE = Stage(
    run,
    rules=(RUNS, REPEATS, STATELESS, GOLDEN, NUMBERS),
    follows=("ranks",),
    every_mode=False,
    every_rank=True,
)
