"""The program runs at other sizes of its dynamic dimensions, 1 included, and gives the eager outputs there."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_exportready.analysis.execution.compare import Comparison, compare, summary
from pytest_exportready.analysis.execution.dynamic_shapes import AUTO, UNBOUNDED, Dynamic, declared
from pytest_exportready.analysis.execution.dynamic_shapes_source import dynamic_shapes_source
from pytest_exportready.analysis.execution.input_variants import resized, variations
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.resizable_dims import InputDim, resizable_dims
from pytest_exportready.analysis.execution.symbolic_sizes import sizes_at, symbolic_sizes
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.facts import DYNAMIC_SHAPES, SIZES
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._narrowed_dimension import NARROWER, SPECIALIZED, Narrowed
from pytest_exportready.stages._other_sizes import Resize, affordable, other_sizes, tied
from pytest_exportready.stages._stage import SkipStage, Stage

AGREES = Rule(
    "ER602",
    "agrees_at_other_sizes",
    """The program gives the outputs of the eager module at every size that is declared dynamic.

    Why it matters:
        A Python number that is computed from the size of the example is constant in the program. Only another
        size shows it.

    Example:
        class Net(nn.Module):
            def forward(self, x):
                rows = 4 if torch.compiler.is_compiling() else x.shape[0]
                return x / rows

        export_ready_check(Net().eval(), (torch.randn(4, 3),), dynamic_batch=True)

    Instead:
        class Net(nn.Module):
            def forward(self, x):
                return x / x.shape[0]

        export_ready_check(Net().eval(), (torch.randn(4, 3),), dynamic_batch=True)

    Severity:
        error: an output differs.
        warning: the eager module accepts no other size, so that nothing was compared.
    """,
)
INFERRED = Rule(
    "ER603",
    "sizes_inferred",
    """With `dynamic_shapes="auto"`: writes the `dynamic_shapes` that were found, with bounds and ties.

    Why it matters:
        Every dimension that the eager module accepts at other sizes is found and compared there. Write the
        expression into the case, so that a change of it is noticed.

    Example:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(3, 4),), dynamic_shapes="auto")

    Instead:
        batch = torch.export.Dim("batch", min=1)
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(3, 4),), dynamic_shapes={"input": {0: batch}})

    Severity:
        note: always.
    """,
)
OUTSIDE = Rule(
    "ER605",
    "refuses_outside_bounds",
    """The program refuses sizes outside the declared bounds.

    Why it matters:
        Its outputs at these sizes were not compared with the eager module.

    Severity:
        warning: the program runs at a size just outside the bounds.
    """,
)
# torch also treats an inner size of 1 separately, such as that of an image of 2 x 2 that is pooled to 1 x 1
_INNER_ONE = re.compile(r"^Guard failed: [^\n]*//[^\n]* != 1$", re.MULTILINE)


@dataclass(frozen=True)
class _Outcome:
    """What came of another size: a comparison, or a refusal by the program; neither if the eager module refuses it."""

    resize: Resize
    comparison: Comparison | None = None
    refusal: Narrowed | None = None

    @property
    def severity(self) -> str:
        """The severity of the finding; empty if there is nothing to report."""
        if self.refusal is not None:
            return self.refusal.severity
        return "error" if self.comparison is not None and not self.comparison.agree else ""

    def finding(self, trial: Trial) -> Finding:
        if self.refusal is not None:
            return self.refusal.finding(trial)
        assert self.comparison is not None
        output = self.comparison.where or "the output"
        return AGREES.error(
            self.resize.dim.where,
            f"At size {self.resize.size}, {output} of the program differs from the eager module{trial.in_mode}: "
            f"{self.comparison.problem}.",
            "Look for a Python number that is computed from the size, such as `int(x.shape[0] * 0.1)` or a list index, "
            "and compute it with torch operators.",
        )


def run(trial: Trial) -> Iterator[Observation]:
    program, module = trial.program, trial.reference.module
    assert program is not None
    declared_dims = declared(module, trial.call, trial.dynamic_shapes)
    if not declared_dims:
        raise SkipStage("no dimension is declared dynamic")
    leaves = flatten(trial.call)[0]
    symbols = symbolic_sizes(program)
    example = {at: leaves[at[0]].shape[at[1]] for at in symbols}
    dims = [dim for dim in declared_dims if (dim.leaf, dim.dim) in symbols]
    for dim in declared_dims:
        if dim not in dims:
            size = leaves[dim.leaf].shape[dim.dim]
            yield Narrowed.by(program, dim, f"is the constant {size} in the program").finding(trial)
    auto = trial.options.dynamic_shapes == AUTO
    if auto:
        symbols = tied(symbols, leaves, resizable_dims(module, trial.call))
    outcomes = yield from _compare_sizes(trial, dims, symbols)
    compared = [(outcome.resize, outcome.comparison) for outcome in outcomes if outcome.comparison is not None]
    if auto and symbols:
        smallest = {at: min(size, *(r.sizes.get(at, size) for r, _ in compared)) for at, size in example.items()}
        source = dynamic_shapes_source(module, trial.call, program, symbols, smallest)
        yield {DYNAMIC_SHAPES: source}
        yield INFERRED.note(
            "", "The program is for the example's sizes only, and the eager module accepts others.", f"Pass `{source}`."
        )
    sizes = [f"{resize.dim.where}={resize.size}" for resize, _ in compared]
    yield {**summary([comparison for _, comparison in compared]), SIZES: sizes[:24]}


def _compare_sizes(
    trial: Trial, dims: list[Dynamic], symbols: Mapping[InputDim, Any]
) -> Generator[Finding, None, list[_Outcome]]:
    """Compare the program at other sizes, up to the first error; with inferred dimensions, at all of them."""
    assert trial.program is not None
    auto, leaves = trial.options.dynamic_shapes == AUTO, flatten(trial.call)[0]
    outcomes: list[_Outcome] = []
    reported: set[tuple[str, str]] = set()
    for resize in other_sizes(trial.program, leaves, dims, symbols):
        outcome = _at(trial, resize)
        outcomes.append(outcome)
        refusal, dim = outcome.refusal, resize.dim
        edge = auto and refusal is not None and refusal.is_edge and resize.size < leaves[dim.leaf].shape[dim.dim]
        if outcome.severity and not edge and (outcome.severity, dim.where) not in reported:
            reported.add((outcome.severity, dim.where))
            yield outcome.finding(trial)
        if outcome.severity == "error" and not (auto and refusal is not None):
            return outcomes
    if dims and not any(outcome.comparison for outcome in outcomes):
        yield AGREES.warning(
            dims[0].where,
            "Nothing was compared: the eager module accepts only the example's size for this dynamic dimension.",
            "Declare dynamic only dimensions that can vary.",
        )
    yield from _outside(trial, dims, symbols)
    return outcomes


def _at(trial: Trial, resize: Resize) -> _Outcome:
    """Compare program and eager module on random inputs of another size, or on the resized example."""
    assert trial.program is not None
    example = resized(trial.call, resize.sizes)
    accepted = trial.reference.first_accepted([*variations(example, seed=3), example])
    if accepted is None:
        return _Outcome(resize)
    call, expected = accepted
    try:
        actual = trial.running.outputs([call])[0]
    except Exception as error:
        inner = resize.size > 1 and _INNER_ONE.search(str(error)) is not None
        refusal = replace(
            Narrowed.by(trial.program, resize.dim, f"is refused at size {resize.size}"),
            torch_says=exception_text(error, 200),
            place=user_place(error),
            severity="warning" if inner else "error",
        )
        return _Outcome(resize, refusal=refusal)
    return _Outcome(resize, compare(expected, actual, trial.tolerance))


def _outside(trial: Trial, dims: list[Dynamic], symbols: Mapping[InputDim, Any]) -> Iterator[Finding]:
    """Run the program one below and one above the declared bounds."""
    for dim in dims:
        symbol, leaf = symbols[dim.leaf, dim.dim], flatten(trial.call)[0][dim.leaf]
        below = dim.smallest - 1 if dim.smallest > 2 else 0  # torch has no bound of 2: every size has it
        for size in (below, dim.largest + 1):
            if not symbol.is_symbol or not 0 < size <= UNBOUNDED or not affordable(leaf, dim.dim, size):
                continue
            try:
                call = resized(trial.call, sizes_at(symbols, {symbol: size}))
                trial.reference.try_on_host([call])
                trial.running.outputs([call])
            except Exception:
                continue
            bounds = f"{dim.smallest} to {dim.largest}" if dim.largest < UNBOUNDED else f"{dim.smallest} and up"
            yield OUTSIDE.warning(
                dim.where,
                f"The program runs at size {size}, outside the declared range of {bounds}.",
                "Declare every size that the input may have, or call `torch._check` on the size in `forward`.",
            )


STAGE = Stage(run, rules=(SPECIALIZED, AGREES, INFERRED, NARROWER, OUTSIDE), after=("parity",))
