"""A patch for branches on tensor values, returned only if it is verified.

On inputs that take both sides of every branch, the patched module returns the outputs of the original, in eager mode
and as an exported program. The user's file is not written; the patched functions are restored afterwards.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.input_variants import variations
from pytest_exportready.analysis.execution.program_runner import RunningProgram
from pytest_exportready.analysis.execution.pytree import distinct, map_tensors
from pytest_exportready.analysis.module.snapshot import Snapshot
from pytest_exportready.analysis.source.branch_rewriter import CannotRewrite, choices, rewritten
from pytest_exportready.analysis.source.function_source import Source
from pytest_exportready.analysis.source.source_edit import Edit, difference, edited, replaced
from pytest_exportready.analysis.source.value_dependent_lines import Suspect
from pytest_exportready.case.finding import PATCH_LIMIT
from pytest_exportready.diagnosis._affordable import affordable
from pytest_exportready.diagnosis._diagnosis import Failure
from pytest_exportready.diagnosis._without_collectives import without_collectives

_TAKEN = "_exportready_taken"
_MOST, _SECONDS = 24, 10.0  # limits of the search for inputs that take both sides of every branch
_SHIFTS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: -t, lambda t: t.abs(), lambda t: -t.abs(), lambda t: t * 0, lambda t: t * 100, lambda t: t / 100,
    lambda t: t + 10, lambda t: t - 10,
)  # fmt: skip


def proved_patch(failure: Failure) -> str:
    """Return a unified diff of the file that makes the module exportable; empty if none is verified."""
    try:
        functions = _branches(failure)
        patched = {source: edited(source, rewritten(sites)) for source, sites in functions.items()}
        patch = _shown(patched)
        return patch if patch and affordable(failure) and _proved(failure, functions, patched) else ""
    except Exception:  # raised by the user's code or torch: there is no patch then
        return ""


def _branches(failure: Failure) -> dict[Source, list[Suspect]]:
    """Return the branches that stop an export, by function. Raise CannotRewrite if none is at the failure's place."""
    found = [suspect for suspect in failure.suspects if suspect.what == "branch"]
    met = [s for s in found if s.sure or (s.file, s.line) == failure.place]
    if failure.place not in [(site.file, site.line) for site in met]:
        raise CannotRewrite
    spans = [(site.source, choice) for site in met for choice in choices([site])]
    functions: dict[Source, list[Suspect]] = defaultdict(list)
    for site in found:
        inside = any(site.source is s and c.lineno <= site.line <= (c.end_lineno or 0) for s, c in spans)
        if site in met or inside:
            functions[site.source].append(site)
    return functions


def _shown(patched: dict[Source, list[str]]) -> str:
    for context in (1, 0):
        text = "\n".join(difference(source, lines, context) for source, lines in patched.items())
        if len(text) <= PATCH_LIMIT:
            return text
    return ""


def _proved(failure: Failure, functions: dict[Source, list[Suspect]], patched: dict[Source, list[str]]) -> bool:
    module, state = failure.module, Snapshot(failure.module)

    def output(call: Call) -> Any:
        try:
            with without_collectives():
                return run(module, [call])[0]
        finally:
            state.restore()

    with global_state_kept(), ExitStack() as stack:
        try:
            expected = _covering_inputs(failure, functions, output)
            for source, lines in patched.items():
                stack.enter_context(replaced(source, lines))
            program = RunningProgram(_exported(failure))
            return bool(expected) and all(
                compare(wanted, actual, Tolerance()).agree
                for call, wanted in expected
                for actual in (output(call), program.outputs([call])[0])
            )
        finally:
            state.restore()


def _covering_inputs(
    failure: Failure, functions: dict[Source, list[Suspect]], output: Callable[[Call], Any]
) -> list[tuple[Call, Any]]:
    """Return inputs that together take both sides of every branch, with the module's outputs; empty if none do."""
    missing = {(site.file, site.line, side) for sites in functions.values() for site in sites for side in (False, True)}
    found: list[tuple[Call, Any]] = []
    with ExitStack() as stack:
        taken: set[tuple[str, int, bool]] = set()
        for source, sites in functions.items():
            stack.enter_context(_recorded(source, sites, taken))
        until = time.monotonic() + _SECONDS
        for call in islice(_inputs(failure), _MOST):
            if time.monotonic() > until:
                return []
            taken.clear()
            try:
                expected = output(call)
            except Exception:
                continue  # the module does not accept every variation
            if not found or missing & taken or len(found) < 3:
                found.append((call, expected))
            missing -= taken
            if not missing and len(found) >= 3:
                return found
    return [] if missing else found


def _inputs(failure: Failure) -> Iterator[Call]:
    """Yield the example, the user's other inputs, random ones, and the example negated, scaled and shifted."""
    example = failure.trial.call
    yield example
    yield from failure.trial.more_calls
    yield from (fresh for seed in (0, 1) for fresh in islice(variations(example, seed), 1))
    for shift in _SHIFTS:
        moved = map_tensors(lambda t: shift(t) if t.is_floating_point() else t, distinct(example))  # noqa: B023
        yield moved[0], moved[1]
    yield from (fresh for seed in range(2, _MOST) for fresh in variations(example, seed))


@contextmanager
def _recorded(source: Source, sites: list[Suspect], taken: set[tuple[str, int, bool]]) -> Iterator[None]:
    """Add ``(file, line, side)`` of each branch that the user's function takes within the block to ``taken``."""
    name = f"{_TAKEN}_{source.first}"
    tests = [choice.test for choice in choices(sites)]
    edits = [
        Edit(first.start, first.end, f"{name}({number}, {first.text})")
        for number, first in enumerate(Edit.of(test, test, [test]) for test in tests)
    ]

    def note(number: int, test: Any) -> bool:
        side = bool(test)
        taken.add((sites[number].file, sites[number].line, side))
        return side

    names = source.function.__globals__
    names[name] = note
    try:
        with replaced(source, edited(source, edits)):
            yield
    finally:
        del names[name]


def _exported(failure: Failure) -> torch.export.ExportedProgram:
    args, kwargs = distinct(failure.trial.call)
    strict = failure.trial.mode == "strict"
    return torch.export.export(failure.module, args, kwargs, dynamic_shapes=failure.dynamic_shapes, strict=strict)
