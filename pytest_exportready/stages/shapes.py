"""Dimensions declared dynamic really are: the program runs and agrees at other sizes, 1 included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.dynamic import UNBOUNDED, Dynamic, declared, dynamic_shapes
from pytest_exportready.failure import user_place
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.pytree import flatten
from pytest_exportready.stage import SkipStage, Stage, Trial
from pytest_exportready.stages.parity import run_program, summary, tolerance_of
from pytest_exportready.text import exception_text
from pytest_exportready.tolerance import Comparison, compare
from pytest_exportready.torch_internals import program_guards
from pytest_exportready.truth import Call
from pytest_exportready.variation import resized, variations

SPECIALISED = Rule(
    "ER601",
    "dimension_is_dynamic",
    "A dimension that was declared dynamic (Dim.AUTO above all) can turn into a constant, or into a narrower range, without\n"
    "a word. Read from the shapes, ranges and guards of the program and shown by running it.",
)
AGREES = Rule(
    "ER602",
    "agrees_at_other_sizes",
    "The program must give what the trained module gives at every size it was declared for. A Python number computed from\n"
    "the example's size is frozen, and only another size shows it.",
)


def run(trial: Trial) -> Iterator[Finding]:
    assert trial.program is not None
    call: Call = (trial.case.args, dict(trial.case.kwargs))
    spec = dynamic_shapes(trial.truth.module, call, trial.options)
    dims = declared(trial.truth.module, call, spec)
    if not dims:
        raise SkipStage("no dimension is declared dynamic")
    symbols = _symbols(trial.program)
    fixed = [d for d in dims if (d.leaf, d.dim) not in symbols]
    for d in fixed:
        yield _specialised(trial.program, d, f"is the constant {flatten(call)[0][d.leaf].shape[d.dim]} in the program")
    results: list[Comparison] = []
    sizes: list[str] = []
    for label, changed in _sizes(call, [d for d in dims if d not in fixed], symbols):
        finding = _at(trial, label, changed, dims, results)
        sizes += [label] if finding is None else []
        if finding is not None:
            yield finding
            break
    trial.facts |= {**summary(results), "sizes": sizes[:24]}


def _symbols(program: ExportedProgram) -> dict[tuple[int, int], Any]:
    """The symbolic expression of every input dimension that has one, by leaf and dimension."""
    specs = program.graph_signature.input_specs
    inputs = [spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for leaf, name in enumerate(inputs):
        value = nodes[name].meta.get("val") if name in nodes else None
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                found[leaf, dim] = size.node.expr
    return found


def _sizes(
    call: Call, dims: list[Dynamic], symbols: Mapping[tuple[int, int], Any]
) -> Iterator[tuple[str, dict[tuple[int, int], int]]]:
    """Each symbol at 1, 2, an odd and a larger size (and its declared bounds), the others as in the example."""
    leaves = flatten(call)[0]
    for symbol in dict.fromkeys(s for d in dims for s in symbols[d.leaf, d.dim].free_symbols):
        own = next((d for d in dims if symbols[d.leaf, d.dim] == symbol), None)
        if own is None:
            continue
        example = leaves[own.leaf].shape[own.dim]
        wanted = {1, 2, 3, 7, 2 * example + 1, own.smallest} | ({own.largest} if own.largest <= 4 * example + 64 else set())
        for size in sorted(wanted - {example}):
            if not own.smallest <= size <= own.largest:
                continue
            changed = {
                at: int(expression.subs(symbol, size))
                for at, expression in symbols.items()
                if expression.free_symbols == {symbol}
            }
            yield f"{own.where}={size}", changed


def _at(
    trial: Trial, label: str, changed: dict[tuple[int, int], int], dims: list[Dynamic], results: list[Comparison]
) -> Finding | None:
    assert trial.program is not None
    at_size = resized((trial.case.args, dict(trial.case.kwargs)), changed)
    for call in [*variations(at_size, seed=3), at_size]:
        try:
            expected = trial.truth.answer(call)
        except Exception:
            continue
        if any(isinstance(x, torch.Tensor) and x.is_floating_point() and x.isnan().any() for x in flatten(expected)[0]):
            continue
        break
    else:
        return None  # the trained module itself refuses this size
    where = label.split("=")[0]
    try:
        actual = run_program(trial.program, [call])[0]
    except Exception as error:
        own = next((d for d in dims if d.where == where), dims[0])
        size = label.rsplit("=", 1)[1]
        return _specialised(trial.program, own, f"is refused at size {size}: {exception_text(error, 200)}", error)
    result = compare(expected, actual, tolerance_of(trial))
    results.append(result)
    if result.agree:
        return None
    return AGREES.error(
        where,
        f"the program ({trial.mode}) and the trained module disagree at {label}, {result.where}: {result.problem}",
        "look for a Python number computed from the size (x.shape[0] * 0.1, int(...), a list index) and make it a tensor",
    )


def _specialised(program: ExportedProgram, dim: Dynamic, problem: str, error: Exception | None = None) -> Finding:
    file, line = user_place(error) if error else ("", 0)
    guards = [guard for guard in program_guards(program) if f"size()[{dim.dim}]" in guard]
    guard = f"; guard: {guards[0]}" if guards else ""
    bounds = "" if dim.largest >= UNBOUNDED else f" up to {dim.largest}"
    return SPECIALISED.error(
        dim.where,
        f"declared dynamic{bounds}, but it {problem}{guard}",
        "use an example of size 2 or more that differs from every other size, and take sizes from the input; "
        "a named Dim (not Dim.AUTO) makes torch.export itself refuse",
        file=file,
        line=line,
    )


STAGE = Stage(run, rules=(SPECIALISED, AGREES), after=("parity",))
