"""Whether every rank computes the same from the same inputs, in eval mode."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.detectors.ambient_reads import AmbientRead, ambient_reads
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.pytree import flatten, map_tensors, named_leaves, unflatten
from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.ranks.comparison import Difference, differences, named
from pytest_exportready.analysis.ranks.gather import Table
from pytest_exportready.analysis.ranks.rank_state import VALUES, Described
from pytest_exportready.analysis.ranks.state_hash import fingerprint
from pytest_exportready.analysis.torch_internals.modules import plain_attributes
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.wording import and_more

_MOST = 64 << 20  # bytes of inputs or outputs that travel
_PLAIN = (bool, int, float, str, type(None))


class NotCompared(Exception):
    """The outputs cannot be compared; the message says why."""


@dataclass(frozen=True)
class Apart:
    """The outputs differ. where: which output. told: who differs from whom, and how far. culprit: the one rank that
    does, if it is one. attributes: Python attributes of modules, and tensors in them, that the ranks do not have
    alike. asked: what forward asks besides its inputs and state."""

    where: str
    told: str
    culprit: int | None
    attributes: list[str] = field(default_factory=list)
    asked: AmbientRead | None = None


def outputs_apart(
    case: ExportCase, statistics: Mapping[str, Tensor], tolerance: Tolerance, table: Table
) -> Apart | None:
    """None when all ranks give the same output on the example inputs of rank 0, within ``tolerance``.

    Every rank calls it; the module is left as it was. statistics: running statistics that all shall use, by name.
    Raises NotCompared when the inputs do not travel, forward raises or does not repeat itself; AbsentRanks.
    """
    reference = EagerReference(case.model)
    call = _same_inputs((case.args, case.kwargs), reference.module, table)
    with _using(reference.module, statistics):
        answer = _run(reference, call, table)
        everyone = table.gather_where_different("outputs", Described(answer).facts)
        if everyone is None:
            return None
        found = differences(everyone, table.ranks)
        if not found:
            return None
        apart = _by_form(found) or _by_values(found, _problems(answer, found[0].reference, tolerance, table))
        if apart is None:
            return None
        answers: list[Any] = []
        reads = ambient_reads(lambda: answers.append(_run(reference, call, table)))
        again = compare(answer, answers[0], tolerance)
    if not all(table.gather_json("repeats", again.agree)):
        raise NotCompared("forward does not repeat itself")
    attributes = table.gather_where_different("attributes", _attributes(reference.module)) or [{}] * len(table.ranks)
    names = list(dict.fromkeys(difference.where for difference in differences(attributes, table.ranks)))
    return replace(apart, attributes=names, asked=next(iter(reads), None))


def _by_form(found: list[Difference]) -> Apart | None:
    form = next((difference for difference in found if difference.field != VALUES), None)
    return None if form is None else Apart(f"output {form.where}".strip(), form.told(), form.culprit)


def _by_values(found: list[Difference], problems: dict[int, tuple[str, str]]) -> Apart | None:
    """problems: those beyond the tolerance."""
    if not problems:
        return None
    where, _ = next(iter(problems.values()))
    agreeing = [rank for rank in found[0].values if rank not in problems]
    each = [f"rank {rank}: {why}" for rank, (_, why) in list(problems.items())[:3]]
    culprit = next(iter(problems)) if len(problems) == 1 and len(agreeing) > 1 else None
    return Apart(f"output{where}", f"from {named(agreeing)} differ {and_more(each, len(problems), '; ')}", culprit)


def _same_inputs(own: Call, model: nn.Module, table: Table) -> Call:
    """Everybody's own when they are the same, else rank 0's."""
    leaves = [leaf for _, leaf in named_leaves(own)]
    told = all(isinstance(leaf, (Tensor, *_PLAIN)) for leaf in leaves)  # of what else there is no hash
    same = table.gather_where_different("inputs", Described(own).facts) is None
    if all(table.gather_json("inputs/told", told)) and same:
        return own
    sent = table.gather("inputs/sent", _saved(own) if table.here == table.ranks[0] else b"")[0]
    call, problem = _loaded(sent, leaves, model)
    problems = [why for why in table.gather_json("inputs/came", problem) if why]
    if problems or call is None:
        raise NotCompared(f"the example inputs differ between ranks, and those of rank 0 {problems[0]}")
    return call


def _saved(tree: Any) -> bytes:
    size = sum(t.numel() * t.element_size() for _, t in named_leaves(tree) if isinstance(t, Tensor))
    if size > _MOST:
        return b""
    file = io.BytesIO()
    try:
        torch.save(map_tensors(lambda t: t.detach().cpu().clone(), tree), file)
    except Exception:  # whatever the user's own classes raise
        return b""
    return file.getvalue()


def _loaded(sent: bytes, own: list[Any], model: nn.Module) -> tuple[Call | None, str]:
    """The call on this rank's devices, or why there is none."""
    if not sent:
        return None, "cannot be sent"
    try:
        args, kwargs = torch.load(io.BytesIO(sent), weights_only=True)
    except Exception as error:
        return None, f"cannot be loaded without running code ({type(error).__name__})"
    leaves, spec = flatten((args, kwargs))
    devices = [leaf.device for leaf in own if isinstance(leaf, Tensor)]
    placed = iter(devices) if len(devices) == sum(isinstance(leaf, Tensor) for leaf in leaves) else None
    home = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    moved = [leaf.to(next(placed) if placed else home) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    args, kwargs = unflatten(moved, spec)
    return (args, kwargs), ""


@contextmanager
def _using(model: nn.Module, statistics: Mapping[str, Tensor]) -> Iterator[None]:
    """Rank 0's running statistics in ``model``, for as long as the block lasts."""
    buffers = dict(model.named_buffers(remove_duplicate=False))
    own = {name: buffers[name].detach().clone() for name in statistics if name in buffers}
    with torch.no_grad():
        for name in own:
            buffers[name].copy_(statistics[name])
    try:
        yield
    finally:
        with torch.no_grad():
            for name, before in own.items():
                buffers[name].copy_(before)


def _run(reference: EagerReference, call: Call, table: Table) -> Any:
    answer, raised = None, ""
    try:
        answer = reference.output(call)
    except Exception as error:
        raised = type(error).__name__
    failed = [
        f"{raised} on rank {rank}"
        for rank, raised in zip(table.ranks, table.gather_json("ran", raised), strict=True)
        if raised
    ]
    if failed:
        raise NotCompared(f"forward raises {failed[0]}")
    return answer


def _problems(answer: Any, reference: int, tolerance: Tolerance, table: Table) -> dict[int, tuple[str, str]]:
    """By rank, where and how its output is not that of the rank ``reference``; tensors only, all of the same form:
    what else an output holds has been compared."""
    tensors = {name: leaf for name, leaf in named_leaves(answer) if isinstance(leaf, Tensor)}
    sent = table.gather("outputs/sent", _saved(tensors) if table.here == reference else b"")
    payload = sent[table.ranks.index(reference)]
    if not payload:
        raise NotCompared("the outputs cannot be sent, or are too large")
    expected = torch.load(io.BytesIO(payload), weights_only=True)
    compared = {name: compare(expected[name], tensor.cpu(), tolerance) for name, tensor in tensors.items()}
    worst = next(((name, result.problem) for name, result in compared.items() if not result.agree), ("", ""))
    everyone = table.gather_json("outputs/compared", worst)
    return {rank: (name, why) for rank, (name, why) in zip(table.ranks, everyone, strict=True) if why}


def _attributes(model: nn.Module) -> dict[str, dict[str, str]]:
    """Plain values and tensors that modules keep besides parameters and buffers."""
    found = {}
    for prefix, module in model.named_modules():
        for name, value in plain_attributes(module).items():
            if isinstance(value, _PLAIN) and name != "training":
                found[f"{prefix}.{name}".removeprefix(".")] = {"value": repr(value)[:80]}
    return found | {name: {"values": fingerprint(tensor)} for name, tensor in unregistered_tensors(model)}
