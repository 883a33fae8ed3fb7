"""What goes in and comes out: whose memory it is, under which name it comes, and whether the program does the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.aliasing import (
    HandedOver,
    answer_sharing,
    hand_over,
    input_leaves,
    memory,
)
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.program.constant_outputs import outputs_without_inputs
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.stages._stage import Stage

WRITES = Rule(
    "ER151",
    "inputs_not_mutated",
    "forward writes what it is given: the caller's tensor is another one after the call, and the second call with it "
    "gives another answer. A program does the same, or it does not; inputs that share memory are no longer what the "
    "module saw.",
)
OUTPUTS = Rule(
    "ER152",
    "outputs_not_overwritten",
    "An output is memory that the module keeps, and the next call overwrites it: an answer that is still held changes. "
    "A cache is meant to; say so with ExportCase(allow_mutation=True, stateful_calls=True).",
)
ORDER = Rule(
    "ER153",
    "keyword_order_irrelevant",
    "Keyword inputs, and entries of dicts, that are given in another order than in the example must mean the same to "
    "the program as to the module, or be refused; they must never be taken for one another.",
)
CONSTANT = Rule(
    "ER154",
    "outputs_follow_inputs",
    "Outputs that are the same for every input in the program: anchors and positions are meant to be, a number that "
    "Python computed from a size or from a value is what it was for the example. Information, not a fault.",
)


def run(trial: Trial) -> Iterator[Finding]:
    call: Call = (trial.case.args, dict(trial.case.kwargs))
    other = next(_accepted(trial, call), None)
    handed = hand_over(trial.reference.module, call, other)
    yield from _writes(trial, call, handed)
    yield from _outputs(trial, handed)
    yield from _order(trial, call)
    yield from _constants(trial, call)


def _accepted(trial: Trial, call: Call) -> Iterator[Call]:
    """Other inputs: those of the case, then fresh ones that the module takes."""
    yield from ((tuple(args), dict(kwargs)) for args, kwargs in trial.case.more_inputs)
    for fresh in variations(call, seed=4):
        try:
            trial.reference.output(fresh)
        except Exception:
            continue
        yield fresh


def _writes(trial: Trial, call: Call, handed: HandedOver) -> Iterator[Finding]:
    if handed.replaced:
        yield WRITES.warning(
            few(handed.replaced),
            "forward puts entries into a dict or list it was given, or takes them out; a program leaves it as it was",
            "work on a copy in forward: batch = dict(batch)",
        )
    if not handed.written:
        return
    assert trial.program is not None
    where = few(handed.written)
    try:
        by_program = hand_over(trial.program.module(), call).written
    except Exception:  # told by the stage parity
        by_program = handed.written
    tell = WRITES.note if trial.case.allow_mutation else WRITES.warning
    message = "forward writes this input in place: after the call the caller's tensor is another one"
    fix = "write to a copy: x = x.clone(), or x = x - mean in place of x.sub_(mean)"
    unlike = [
        path for path, now in handed.written.items() if path not in by_program or not equal_bits(now, by_program[path])
    ]
    mixed = None if unlike else _shared_and_read(trial, call, list(handed.written))
    if unlike:
        tell, where, message = WRITES.error, few(unlike), f"{message}; the program leaves something else there"
    elif mixed:
        tell, where = WRITES.error, f"{mixed[0]} and {mixed[1]}"
        message = (
            f"{mixed[0]} and {mixed[1]} share memory, and forward writes one of them: the module reads what it wrote, "
            "a program that is given two tensors does not"
        )
        fix = "pass tensors of their own (x.clone()), and write to a copy in forward"
    yield tell(where, message, fix)


def _shared_and_read(trial: Trial, call: Call, written: list[str]) -> tuple[str, str] | None:
    """Two inputs in the same memory, but not the same tensor, for which it matters that it is the same."""
    tensors = {path: leaf for path, leaf in input_leaves(call) if isinstance(leaf, torch.Tensor)}
    pairs = [
        (path, other)
        for path in written
        for other, leaf in tensors.items()
        if leaf is not tensors[path] and memory(leaf) and memory(leaf) == memory(tensors[path])
    ]
    if not pairs:
        return None
    try:
        sharing = answer_sharing(trial.reference.module, call)
    except Exception:  # inputs that cannot be copied so
        return None
    return None if compare(trial.reference.output(call), sharing, Tolerance()).agree else pairs[0]


def _outputs(trial: Trial, handed: HandedOver) -> Iterator[Finding]:
    declared = trial.case.allow_mutation or trial.case.stateful_calls
    kept = handed.overwritten
    if kept:
        owner = few(dict.fromkeys(handed.shared.get(path, "a tensor outside the module") for path in kept))
        yield (OUTPUTS.note if declared else OUTPUTS.error)(
            owner,
            f"{few(kept)} is the memory of {owner}, which the next call writes: an answer still held changes",
            "return a copy, .clone(); or, for a cache, ExportCase(allow_mutation=True, stateful_calls=True)",
        )
    others = [f"{path} of {owner}" for path, owner in handed.shared.items() if path not in kept]
    if others:
        yield OUTPUTS.note("", f"output that shares memory: {few(others)}", "clone() it before you write to it")


def _order(trial: Trial, call: Call) -> Iterator[Finding]:
    """The same inputs under the same names, in another order."""
    turned = (_turned(call[0]), _turned(call[1]))
    if [path for path, _ in input_leaves(call)] == [path for path, _ in input_leaves(turned)]:
        return
    try:
        expected = trial.reference.output(turned)
        given = trial.running.outputs([turned])[0]
    except Exception:  # refused by the one or the other
        return
    if compare(expected, given, Tolerance()).agree:
        return
    if compare(trial.reference.output(call), given, Tolerance()).agree:
        yield ORDER.warning(
            "kwargs",
            "the answer of the module depends on the order in which its inputs are named; the program takes them in "
            "that of the example",
            "read the inputs by name in forward: [features[name] for name in self.names]",
        )
    else:
        yield ORDER.error(
            "kwargs",
            "the program takes inputs for one another that are named in another order than in the example",
            "give inputs in the order of the example, or positional ones",
        )


def _turned(given: Any) -> Any:
    """With the entries of every dict the other way round."""
    if type(given) in (dict, OrderedDict):
        return type(given)({name: _turned(part) for name, part in reversed(given.items())})
    return type(given)(map(_turned, given)) if type(given) in (list, tuple) else given


def _constants(trial: Trial, call: Call) -> Iterator[Finding]:
    assert trial.program is not None
    leaves = named_leaves(trial.reference.output(call))
    fixed, tensors = outputs_without_inputs(trial.program)
    names = [f"output{leaves[at][0]}" for at in fixed if at < len(leaves)]
    if names and len(names) < tensors:
        yield CONSTANT.note(few(names), f"{counted(len(names), 'output tensor')} depends on no input", "")
    numbers = [f"output{path}" for path, leaf in leaves if isinstance(leaf, (bool, int, float, str))]
    if numbers and not trial.options.dynamic_batch and trial.options.dynamic_shapes is None:
        message = "a Python value, in the program that of the example"
        yield CONSTANT.note(few(numbers), message, "return a tensor where it has to follow the input")


STAGE = Stage(run, rules=(WRITES, OUTPUTS, ORDER, CONSTANT), after=("eager", "export"), every_mode=False)
