"""Inputs and outputs of module and program: mutation, aliasing, keyword order, constant outputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.aliasing import (
    CallEffects,
    call_effects,
    input_leaves,
    memory,
    output_with_shared_memory,
)
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.program.constant_outputs import outputs_without_inputs
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import counted, few
from pytest_exportready.stages._interface_rules import CONSTANT, MUTATES, ORDER, OVERWRITES
from pytest_exportready.stages._stage import Stage

_COPY = "Write to a copy (`x = x.clone()`), or use the out-of-place operator."


def run(trial: Trial) -> Iterator[Finding]:
    effects = call_effects(trial.reference.module, trial.call, next(_accepted(trial), None))
    yield from _mutations(trial, effects)
    yield from _aliases(trial, effects)
    yield from _order(trial)
    yield from _constants(trial)


def _accepted(trial: Trial) -> Iterator[Call]:
    """Yield other inputs: those of the case, then random ones that the module accepts."""
    yield from trial.more_calls
    for call in variations(trial.call, seed=4):
        try:
            trial.reference.output(call)
        except Exception:
            continue
        yield call


def _mutations(trial: Trial, effects: CallEffects) -> Iterator[Finding]:
    if effects.changed_containers:
        yield MUTATES.warning(
            few(effects.changed_containers),
            "`forward` adds or removes entries of this input. A program leaves the input as it was.",
            "Change a copy in `forward`: `batch = dict(batch)`.",
        )
    if not effects.mutated:
        return
    different = _mutated_differently(trial, effects)
    shared = None if different else _shared_and_read(trial, list(effects.mutated))
    if different:
        yield MUTATES.error(
            few(different), "`forward` modifies this input in place, and the program modifies it differently.", _COPY
        )
    elif shared:
        yield MUTATES.error(
            f"{shared[0]} and {shared[1]}",
            "These inputs share memory, and `forward` modifies one. In a program, the other one does not change.",
            "Pass tensors with separate memory (`x.clone()`), and write to a copy in `forward`.",
        )
    else:
        report = MUTATES.note if trial.case.allow_mutation else MUTATES.warning
        message = "`forward` modifies this input in place; the caller's tensor is changed."
        yield report(few(effects.mutated), message, _COPY)


def _mutated_differently(trial: Trial, effects: CallEffects) -> list[str]:
    """Return the inputs that the module modifies in place and the program does not, or not to the same values."""
    assert trial.program is not None
    try:
        by_program = call_effects(trial.program.module(), trial.call).mutated
    except Exception:  # reported by the stage parity
        return []
    return [
        path
        for path, value in effects.mutated.items()
        if path not in by_program or not equal_bits(value, by_program[path])
    ]


def _shared_and_read(trial: Trial, mutated: list[str]) -> tuple[str, str] | None:
    """Return two different inputs in the same memory, if the output depends on that."""
    tensors = {path: leaf for path, leaf in input_leaves(trial.call) if isinstance(leaf, torch.Tensor)}
    pairs = [
        (path, other)
        for path in mutated
        for other, leaf in tensors.items()
        if leaf is not tensors[path] and memory(leaf) and memory(leaf) == memory(tensors[path])
    ]
    if not pairs:
        return None
    try:
        shared = output_with_shared_memory(trial.reference.module, trial.call)
    except Exception:  # inputs that `copy.deepcopy` refuses
        return None
    return None if compare(trial.reference.output(trial.call), shared, Tolerance()).agree else pairs[0]


def _aliases(trial: Trial, effects: CallEffects) -> Iterator[Finding]:
    overwritten = effects.overwritten
    if overwritten:
        declared = trial.case.allow_mutation or trial.case.stateful_calls
        owners = dict.fromkeys(effects.aliases.get(path, "a tensor outside the module") for path in overwritten)
        report = OVERWRITES.note if declared else OVERWRITES.error
        yield report(
            few(owners),
            f"The next call overwrites this tensor, and {few(overwritten)} shares its memory.",
            "Return a copy (`.clone()`); for a cache, pass `ExportCase(allow_mutation=True, stateful_calls=True)`.",
        )
    others = [f"{path} with {owner}" for path, owner in effects.aliases.items() if path not in overwritten]
    if others:
        yield OVERWRITES.note(
            "", f"An output shares memory: {few(others)}.", "Call `.clone()` on the output before you write to it."
        )


def _order(trial: Trial) -> Iterator[Finding]:
    """Compare module and program on the example inputs, named in another order."""
    call = trial.call
    reordered = (_reordered(call[0]), _reordered(call[1]))
    if [path for path, _ in input_leaves(call)] == [path for path, _ in input_leaves(reordered)]:
        return
    try:
        expected = trial.reference.output(reordered)
        actual = trial.running.outputs([reordered])[0]
    except Exception:  # the module or the program refuses them
        return
    if compare(expected, actual, Tolerance()).agree:
        return
    if compare(trial.reference.output(call), actual, Tolerance()).agree:
        yield ORDER.warning(
            "kwargs",
            "The eager output depends on the order in which inputs are named; the program keeps the example's order.",
            "Read the inputs by name in `forward`: `[features[name] for name in self.names]`.",
        )
    else:
        yield ORDER.error(
            "kwargs",
            "The program exchanges inputs that are named in another order than in the example.",
            "Pass inputs in the order of the example, or as positional arguments.",
        )


def _reordered(given: Any) -> Any:
    """Return ``given`` with the entries of every dict in reverse order."""
    if type(given) in (dict, OrderedDict):
        return type(given)({name: _reordered(part) for name, part in reversed(given.items())})
    return type(given)(map(_reordered, given)) if type(given) in (list, tuple) else given


def _constants(trial: Trial) -> Iterator[Finding]:
    assert trial.program is not None
    leaves = named_leaves(trial.reference.output(trial.call))
    constant, tensors = outputs_without_inputs(trial.program)
    names = [f"output{leaves[at][0]}" for at in constant if at < len(leaves)]
    if names and len(names) < tensors:
        verb = "does" if len(names) == 1 else "do"
        yield CONSTANT.note(few(names), f"{counted(len(names), 'output tensor')} {verb} not depend on any input.")
    numbers = [f"output{path}" for path, leaf in leaves if isinstance(leaf, (bool, int, float, str))]
    if numbers and not trial.options.dynamic_batch and trial.options.dynamic_shapes is None:
        message = "This Python value is a constant in the program, computed for the example."
        yield CONSTANT.note(few(numbers), message, "Return a tensor if the value depends on the inputs.")


STAGE = Stage(run, rules=(MUTATES, OVERWRITES, ORDER, CONSTANT), after=("eager", "export"), every_mode=False)
