"""Dimensions declared dynamic really are: the program runs and agrees at other sizes, 1 included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Comparison, compare, has_nan, summary
from pytest_exportready.analysis.execution.dynamic_shapes import (
    AUTO,
    UNBOUNDED,
    Dynamic,
    declared,
    dynamic_shapes,
)
from pytest_exportready.analysis.execution.dynamic_shapes_source import shapes_text
from pytest_exportready.analysis.execution.input_variants import resized, variations
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.resizable_dims import Place, varying
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.analysis.torch_internals.programs import program_guards
from pytest_exportready.case.facts import DYNAMIC_SHAPES, SIZES
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.stages._narrowed_dimension import NARROWER, SPECIALISED, Narrowed
from pytest_exportready.stages._stage import SkipStage, Stage

AGREES = Rule(
    "ER602",
    "agrees_at_other_sizes",
    "The program must give what the trained module gives at every size it was declared for. A Python number "
    "computed from the example's size is frozen, and only another size shows it.",
)
INFERRED = Rule(
    "ER603",
    "sizes_inferred",
    'With dynamic_shapes="auto": the dimensions that the trained module takes at other sizes, with what ties and '
    "bounds them, as the expression to write. Each was run at other sizes.",
)
OUTSIDE = Rule(
    "ER605",
    "refuses_outside_bounds",
    "The program must refuse a size outside the bounds that were declared: what it gives there is not proved.",
)

_LARGEST = 2**22  # elements of one input at another size
_MOST = 16  # sizes tried for one symbol
_NUMBER = re.compile(r"\b\d+\b")
# torch sets a size of 1 apart, also inside: an image of 2 x 2 that is pooled to one of 1 x 1
_INNER_ONE = re.compile(r"^Guard failed: [^\n]*//[^\n]* != 1$", re.MULTILINE)
_INDEX = re.compile(r"\[[^\[\]]*\]")


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    call: Call = (trial.case.args, dict(trial.case.kwargs))
    spec = dynamic_shapes(trial.reference.module, call, trial.options)
    dims = declared(trial.reference.module, call, spec)
    if not dims:
        raise SkipStage("no dimension is declared dynamic")
    leaves = flatten(call)[0]
    symbols = _symbols(trial.program)
    fixed = [d for d in dims if (d.leaf, d.dim) not in symbols]
    for d in fixed:
        constant = f"is the constant {leaves[d.leaf].shape[d.dim]} in the program"
        yield Narrowed.by(trial.program, d, constant).finding(trial)
    auto = trial.options.dynamic_shapes == AUTO
    results: list[Comparison] = []
    sizes: list[str] = []
    ran = {at: leaves[at[0]].shape[at[1]] for at in symbols}
    if auto:
        symbols = _tied(symbols, leaves, varying(trial.reference.module, call))
    told: set[tuple[str, str]] = set()
    for d, size, changed in _sizes(trial.program, leaves, [d for d in dims if d not in fixed], symbols):
        compared = len(results)
        found = _at(trial, d, size, changed, results)
        if len(results) > compared:
            ran |= {at: min(ran[at], other) for at, other in changed.items() if at in ran}
        edge = auto and isinstance(found, Narrowed) and found.is_edge and size < leaves[d.leaf].shape[d.dim]
        if found is not None and not edge and (found.severity, d.where) not in told:
            told.add((found.severity, d.where))
            yield found.finding(trial) if isinstance(found, Narrowed) else found
        if found is not None and found.severity == "error" and not (auto and isinstance(found, Narrowed)):
            break
        sizes += [f"{d.where}={size}"] * (len(results) - compared)
    else:
        if not results and len(fixed) < len(dims):
            message = "the trained module runs at no other size of what is declared dynamic: nothing was compared"
            yield AGREES.warning(dims[0].where, message, "declare dynamic only what can vary")
        yield from _outside(trial, [d for d in dims if d not in fixed], symbols)
    if auto and symbols:
        written = shapes_text(trial.reference.module, call, trial.program, symbols, ran)
        yield {DYNAMIC_SHAPES: written}
        yield INFERRED.note("", "dynamic sizes, found by running the trained module at other ones", f"write {written}")
    yield {**summary(results), SIZES: sizes[:24]}


def _symbols(program: ExportedProgram) -> dict[Place, Any]:
    """The symbolic expression of every input dimension that has one, by leaf and dimension."""
    specs = program.graph_signature.input_specs
    inputs = [spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found: dict[Place, Any] = {}
    for leaf, name in enumerate(inputs):
        value = nodes[name].meta.get("val") if name in nodes else None
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            # the trace may have made a constant of a symbol: still a SymInt, but without a free symbol
            if isinstance(size, torch.SymInt) and size.node.expr.free_symbols:
                found[leaf, dim] = size.node.expr
    return found


def _outside(trial: Trial, dims: list[Dynamic], symbols: Mapping[Place, Any]) -> Iterator[Finding]:
    """One below and one above what the user allows."""
    call: Call = (trial.case.args, dict(trial.case.kwargs))
    for d in dims:
        expression, leaf = symbols[d.leaf, d.dim], flatten(call)[0][d.leaf]
        below = d.smallest - 1 if d.smallest > 2 else 0  # torch keeps no bound of 2: it is that of every size
        for size in (below, d.largest + 1):
            elements = size * leaf.numel() // max(leaf.shape[d.dim], 1)
            if not expression.is_symbol or not 0 < size <= UNBOUNDED or elements > max(_LARGEST, 4 * leaf.numel()):
                continue
            try:
                trial.running.outputs([resized(call, _follow(symbols, {expression: size}))])
            except Exception:
                continue
            bounds = f"{d.smallest} to {d.largest}" if d.largest < UNBOUNDED else f"{d.smallest} and up"
            yield OUTSIDE.warning(
                d.where,
                f"declared for sizes {bounds}, but the program runs at {size} as well, where nothing was proved",
                "declare all the sizes that it may get, or torch._check the size in forward",
            )


def _tied(symbols: dict[Place, Any], leaves: list[Any], groups: list[list[Place]]) -> dict[Place, Any]:
    """``symbols`` with those that the module takes in proportion only made from each other."""
    alone = {group[0] for group in groups if len(group) == 1}
    tied = dict(symbols)
    for group in groups:
        places = sorted((at for at in group if at in symbols), key=lambda at: leaves[at[0]].shape[at[1]])
        for at in places[1:]:
            if at not in alone and symbols[at].is_symbol and symbols[places[0]].is_symbol:
                first, dim = places[0]
                tied[at] = symbols[first, dim] * (leaves[at[0]].shape[at[1]] // leaves[first].shape[dim])
    return tied


def _sizes(
    program: ExportedProgram, leaves: list[Any], dims: list[Dynamic], symbols: Mapping[Place, Any]
) -> Iterator[tuple[Dynamic, int, dict[Place, int]]]:
    """Which dimension to have at which size, and all sizes that follow: each symbol at 1, 2, odd and larger
    sizes and around every bound that the program knows; all symbols at once; dimensions that only the program
    ties, apart."""
    groups = {s: [d for d in dims if s in symbols[d.leaf, d.dim].free_symbols] for d in dims
              for s in sorted(symbols[d.leaf, d.dim].free_symbols, key=str)}  # fmt: skip
    together: dict[Any, int] = {}
    for symbol, group in groups.items():
        own = next((d for d in group if symbols[d.leaf, d.dim] == symbol), group[0])
        for value in _candidates(program, leaves, symbol, own, symbols):
            changed = _follow(symbols, {symbol: value})
            if _allowed(group, changed) and changed[own.leaf, own.dim] != leaves[own.leaf].shape[own.dim]:
                if value > 2:
                    together.setdefault(symbol, value + len(together))
                yield own, changed[own.leaf, own.dim], changed
    if len(together) > 1:
        changed = _follow(symbols, together)
        if _allowed(dims, changed):
            yield dims[0], changed[dims[0].leaf, dims[0].dim], changed
    for group in groups.values():
        for d in group if len(group) > 1 else ():
            size = leaves[d.leaf].shape[d.dim] + 1
            if not d.named and _allowed([d], {(d.leaf, d.dim): size}):
                yield d, size, {(d.leaf, d.dim): size}


def _candidates(
    program: ExportedProgram, leaves: list[Any], symbol: Any, own: Dynamic, symbols: Mapping[Place, Any]
) -> list[int]:
    example = leaves[own.leaf].shape[own.dim]
    places = [at for at, expression in symbols.items() if expression == symbol]
    guards = [g for g in program_guards(program) if any(f"size()[{dim}]" in g for _, dim in places)]
    known = {int(number) for guard in guards for number in _NUMBER.findall(_INDEX.sub("", guard))}
    bounds = program.range_constraints.get(symbol)
    known |= {int(b) for b in (bounds.lower, bounds.upper) if str(b).isdecimal()} if bounds is not None else set()
    around = {n + step for n in known for step in (-1, 0, 1)}
    sizes = {1, 2, 3, 7, 2 * example + 1, own.smallest, own.largest} | around
    elements = max(
        leaves[leaf].numel() // max(leaves[leaf].shape[dim], 1) for leaf, dim in places or [(own.leaf, own.dim)]
    )
    return [n for n in sorted(sizes) if n > 0 and n * elements <= max(_LARGEST, leaves[own.leaf].numel() * 4)][:_MOST]


def _follow(symbols: Mapping[Place, Any], values: Mapping[Any, int]) -> dict[Place, int]:
    """The size of every dimension that depends on these symbols alone."""
    return {
        at: int(expression.subs(values))
        for at, expression in symbols.items()
        if expression.free_symbols and expression.free_symbols <= values.keys()
    }


def _allowed(dims: list[Dynamic], changed: Mapping[Place, int]) -> bool:
    return all(d.smallest <= changed.get((d.leaf, d.dim), d.smallest) <= d.largest for d in dims)


def _at(
    trial: Trial, dim: Dynamic, size: int, changed: dict[Place, int], results: list[Comparison]
) -> Finding | Narrowed | None:
    assert trial.program is not None
    at_size = resized((trial.case.args, dict(trial.case.kwargs)), changed)
    for call in [*variations(at_size, seed=3), at_size]:
        try:
            expected = trial.reference.output(call)
        except Exception:
            continue
        if not has_nan(expected):
            break
    else:
        return None  # the trained module itself refuses this size
    try:
        actual = trial.running.outputs([call])[0]
    except Exception as error:
        inner = size > 1 and _INNER_ONE.search(str(error)) is not None
        return replace(
            Narrowed.by(trial.program, dim, f"is refused at size {size}"),
            torch_says=exception_text(error, 200),
            place=user_place(error),
            severity="warning" if inner else "error",
        )
    result = compare(expected, actual, trial.tolerance)
    results.append(result)
    if result.agree:
        return None
    return AGREES.error(
        dim.where,
        f"the program ({trial.mode}) and the trained module disagree at size {size}, {result.where}: {result.problem}",
        "look for a Python number computed from the size (x.shape[0] * 0.1, int(...), a list index) and "
        "make it a tensor",
    )


STAGE = Stage(run, rules=(SPECIALISED, AGREES, INFERRED, NARROWER, OUTSIDE), after=("parity",))
