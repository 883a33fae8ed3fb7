"""Compare what the ranks compute from the same inputs, in eval mode."""

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
from pytest_exportready.analysis.execution.detectors.hardcoded_devices import home
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.pytree import flatten, map_tensors, named_leaves, unflatten
from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.ranks.comparison import Difference, differences
from pytest_exportready.analysis.ranks.exchange import Meeting
from pytest_exportready.analysis.ranks.rank_state import VALUES, RankState
from pytest_exportready.analysis.ranks.state_hash import fingerprint
from pytest_exportready.analysis.torch_internals.modules import plain_attributes
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.wording import and_more, named_ranks

_MOST = 64 << 20  # bytes of inputs or outputs that are sent
_PLAIN = (bool, int, float, str, type(None))


class NotCompared(Exception):
    """The outputs cannot be compared; the message is the reason."""


@dataclass(frozen=True)
class OutputDifference:
    """The first output that is not the same on all ranks."""

    where: str  # which output
    summary: str  # which ranks differ, and how far
    culprit: int | None  # the one rank that differs from all others
    attributes: list[str] = field(default_factory=list)
    """Python attributes of modules, and tensors in them, that are not the same on all ranks."""
    read: AmbientRead | None = None  # what forward reads in addition to its inputs and state


def output_difference(
    case: ExportCase, statistics: Mapping[str, Tensor], tolerance: Tolerance, meeting: Meeting
) -> OutputDifference | None:
    """Return None if all ranks give the same outputs for the example inputs of rank 0, within ``tolerance``.

    Every rank calls it; the module is left as it was.

    Args:
        statistics: Running statistics that all ranks use, by name.

    Raises:
        NotCompared: The inputs cannot be sent, ``forward`` raises, or two equal calls differ.
        AbsentRanks: Some ranks did not take part.
    """
    reference = EagerReference(case.model)
    call = _same_inputs((case.args, case.kwargs), reference.module, meeting)
    with _using(reference.module, statistics):
        output = _run(reference, call, meeting)
        everyone = meeting.gather_where_different("outputs", RankState(output).facts)
        found = [] if everyone is None else differences(everyone, meeting.ranks)
        if not found:
            return None
        different = _by_form(found) or _by_values(found, _problems(output, found[0].reference, tolerance, meeting))
        if different is None:
            return None
        outputs: list[Any] = []
        reads = ambient_reads(lambda: outputs.append(_run(reference, call, meeting)))
        again = compare(output, outputs[0], tolerance)
    if not all(meeting.gather_json("repeats", again.agree)):
        raise NotCompared("two equal calls of forward differ")
    attributes = meeting.gather_where_different("attributes", _attributes(reference.module))
    unequal = [] if attributes is None else differences(attributes, meeting.ranks)
    names = list(dict.fromkeys(difference.where for difference in unequal))
    return replace(different, attributes=names, read=next(iter(reads), None))


def _by_form(found: list[Difference]) -> OutputDifference | None:
    form = next((difference for difference in found if difference.field != VALUES), None)
    return None if form is None else OutputDifference(f"output {form.where}".strip(), form.summary, form.culprit)


def _by_values(found: list[Difference], problems: dict[int, tuple[str, str]]) -> OutputDifference | None:
    """Return the difference that ``problems`` describe: by rank, where and how it is beyond the tolerance."""
    if not problems:
        return None
    where, _ = next(iter(problems.values()))
    agreeing = [rank for rank in found[0].values if rank not in problems]
    each = and_more([f"{why} on rank {rank}" for rank, (_, why) in list(problems.items())[:3]], len(problems), "; ")
    culprit = next(iter(problems)) if len(problems) == 1 and len(agreeing) > 1 else None
    return OutputDifference(f"output{where}", f"compared with {named_ranks(agreeing)}: {each}", culprit)


def _same_inputs(own: Call, model: nn.Module, meeting: Meeting) -> Call:
    """Return the inputs of this rank if they are the same on all ranks, otherwise those of rank 0."""
    leaves = [leaf for _, leaf in named_leaves(own)]
    hashed = all(isinstance(leaf, (Tensor, *_PLAIN)) for leaf in leaves)
    same = meeting.gather_where_different("inputs", RankState(own).facts) is None
    if all(meeting.gather_json("inputs/hashed", hashed)) and same:
        return own
    sent = meeting.gather("inputs/sent", _saved(own) if meeting.is_first else b"")[0]
    call, problem = _loaded(sent, leaves, model)
    problems = [why for why in meeting.gather_json("inputs/received", problem) if why]
    if problems or call is None:
        raise NotCompared(f"the example inputs differ between ranks, and those of rank 0 {problems[0]}")
    return call


def _saved(tree: Any) -> bytes:
    if sum(leaf.nbytes for _, leaf in named_leaves(tree) if isinstance(leaf, Tensor)) > _MOST:
        return b""
    file = io.BytesIO()
    try:
        torch.save(map_tensors(lambda t: t.detach().cpu().clone(), tree), file)
    except Exception:  # whatever the classes of the inputs raise
        return b""
    return file.getvalue()


def _loaded(sent: bytes, own: list[Any], model: nn.Module) -> tuple[Call | None, str]:
    """Return the call on the devices of this rank, or why there is none."""
    if not sent:
        return None, "cannot be sent"
    try:
        args, kwargs = torch.load(io.BytesIO(sent), weights_only=True)
    except Exception as error:
        return None, f"cannot be loaded without running code ({type(error).__name__})"
    leaves, spec = flatten((args, kwargs))
    devices = [leaf.device for leaf in own if isinstance(leaf, Tensor)]
    placed = iter(devices) if len(devices) == sum(isinstance(leaf, Tensor) for leaf in leaves) else None
    at_home = home(model)
    moved = [leaf.to(next(placed) if placed else at_home) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    args, kwargs = unflatten(moved, spec)
    return (args, kwargs), ""


@contextmanager
def _using(model: nn.Module, statistics: Mapping[str, Tensor]) -> Iterator[None]:
    """Within the block, ``model`` has the running statistics of rank 0."""
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


def _run(reference: EagerReference, call: Call, meeting: Meeting) -> Any:
    output, raised = None, ""
    try:
        output = reference.output(call)
    except Exception as error:
        raised = type(error).__name__
    everyone = zip(meeting.ranks, meeting.gather_json("ran", raised), strict=True)
    failed = [f"{name} on rank {rank}" for rank, name in everyone if name]
    if failed:
        raise NotCompared(f"forward raises {failed[0]}")
    return output


def _problems(output: Any, reference: int, tolerance: Tolerance, meeting: Meeting) -> dict[int, tuple[str, str]]:
    """Return by rank where and how its output differs from that of the rank ``reference``.

    Only tensors, all of the same form, are left to compare.
    """
    tensors = {name: leaf for name, leaf in named_leaves(output) if isinstance(leaf, Tensor)}
    sent = meeting.gather("outputs/sent", _saved(tensors) if meeting.rank == reference else b"")
    payload = sent[meeting.ranks.index(reference)]
    if not payload:
        raise NotCompared("the outputs cannot be sent, or are too large")
    expected = torch.load(io.BytesIO(payload), weights_only=True)
    compared = {name: compare(expected[name], tensor.cpu(), tolerance) for name, tensor in tensors.items()}
    worst = next(((name, result.problem) for name, result in compared.items() if not result.agree), ("", ""))
    everyone = meeting.gather_json("outputs/compared", worst)
    return {rank: (name, why) for rank, (name, why) in zip(meeting.ranks, everyone, strict=True) if why}


def _attributes(model: nn.Module) -> dict[str, dict[str, str]]:
    """Return the plain values and tensors that modules keep in addition to parameters and buffers."""
    found = {}
    for prefix, module in model.named_modules():
        for name, value in plain_attributes(module).items():
            if isinstance(value, _PLAIN) and name != "training":
                found[f"{prefix}.{name}".removeprefix(".")] = {"value": repr(value)[:80]}
    return found | {name: {"values": fingerprint(tensor)} for name, tensor in unregistered_tensors(model)}
