"""Compare the ranks of a training: first their state, then their outputs. The findings are the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakSet

import torch.distributed as dist
from torch import Tensor, nn

from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.execution.trial import Facts
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.ranks.exchange import AbsentRanks, Meeting
from pytest_exportready.analysis.ranks.mismatch import Mismatch, mismatches
from pytest_exportready.analysis.ranks.output_comparison import NotCompared, OutputDifference, output_difference
from pytest_exportready.analysis.ranks.rank_state import BUFFER, PASSING_BUFFER, SHARD, STATISTIC, VALUES, RankState
from pytest_exportready.analysis.ranks.rules import SAME_OUTPUTS
from pytest_exportready.analysis.ranks.running_statistics import Drift, drifts
from pytest_exportready.analysis.ranks.state_findings import forms_and_parameters, other_buffers, running_statistics
from pytest_exportready.analysis.torch_internals.modules import is_norm
from pytest_exportready.analysis.torch_internals.tensors import is_dtensor
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.facts import OUTPUTS, RANKS, TENSORS
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import few

_STATE = ("structure", "parameters", "buffers", "modes")
_PATIENCE = 120.0  # seconds for each step between ranks that have met: a large model is hashed and run
_ALONE = 2.0  # seconds to wait for ranks that did not come the last time

_missed: WeakSet[dist.ProcessGroup] = WeakSet()  # default groups whose ranks did not come the last time


class NotTogether(Exception):
    """The other ranks do not take part, often because rank 0 exports alone. The message says which ranks and why."""


def several_ranks() -> bool:
    """Return whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def disagreements(case: ExportCase, tolerance: Tolerance, seconds: float) -> Iterator[Finding | Facts]:
    """Yield findings about state or outputs that differ between the ranks, and facts about what was compared.

    Every rank of the default group calls this and gets the same. The module is left as it was.

    Args:
        seconds: How long to wait for the other ranks to begin; at most 2 s if they did not come the last time.

    Raises:
        NotTogether: The other ranks do not take part.
    """
    world = dist.group.WORLD
    assert world is not None
    try:
        patience = min(seconds, _ALONE) if world in _missed else seconds
        Meeting("export_ready_check", seconds=patience).gather("here", b"")
    except AbsentRanks as absent:
        _missed.add(world)
        raise NotTogether(
            f"{absent}. Call `export_ready_check` on every rank to compare them, or pass `skip_ddp_validation=True` to "
            "not wait for them."
        ) from absent
    _missed.discard(world)
    try:
        yield from _compared(case, tolerance, Meeting("export_ready_check", seconds=_PATIENCE))
    except AbsentRanks as absent:
        raise NotTogether(f"{absent}, after they had begun") from absent


def _compared(case: ExportCase, tolerance: Tolerance, meeting: Meeting) -> Iterator[Finding | Facts]:
    model = unwrap(case.model)[0]
    state = RankState(model, _STATE)
    found = mismatches(state, meeting)
    yield {RANKS: len(meeting.ranks), TENSORS: len(state.tensors)}
    statistics = [m for m in found if m.difference.field == VALUES and m.difference.kind == STATISTIC]
    buffers = [m for m in found if m.difference.field == VALUES and m.difference.kind in (BUFFER, PASSING_BUFFER)]
    drifting, of_rank0 = _drifting(model, statistics, meeting)
    findings = [
        *forms_and_parameters([m for m in found if m not in statistics and m not in buffers]),
        *running_statistics(drifting),
    ]
    yield from findings
    different = None
    try:
        if any(finding.severity == "error" for finding in findings):
            raise NotCompared("the state of the ranks differs")
        if _is_sharded(state):
            raise NotCompared("the parameters are sharded")
        different = output_difference(case, of_rank0, tolerance, meeting)
        yield {OUTPUTS: "differ" if different else "agree"}
    except NotCompared as why:
        yield {OUTPUTS: f"not compared: {why}"}
    yield from other_buffers(buffers, outputs_differ=different is not None)
    if different and not buffers:
        yield _different_outputs(different)


def _drifting(
    model: nn.Module, statistics: Sequence[Mismatch], meeting: Meeting
) -> tuple[dict[str, dict[int, Drift]], dict[str, Tensor]]:
    modules = dict(model.named_modules(remove_duplicate=False))
    names = dict.fromkeys(mismatch.difference.where.rpartition(".")[0] for mismatch in statistics)
    norms = {name: modules[name] for name in names}
    return drifts({name: norm for name, norm in norms.items() if is_norm(norm)}, meeting) if norms else ({}, {})


def _is_sharded(state: RankState) -> bool:
    shards = any(fields.get("kind") == SHARD for fields in state.facts.values())
    return shards or any(is_dtensor(tensor) for tensor in state.tensors.values())


def _different_outputs(found: OutputDifference) -> Finding:
    message = f"The ranks give different outputs for the same inputs: {found.summary}."
    if found.attributes:
        message += f" Not the same on all ranks: {few(found.attributes, 5)}."
    if found.read:
        message += f" `forward` {found.read.words}."
    return SAME_OUTPUTS.error(
        found.attributes[0] if len(found.attributes) == 1 else found.where,
        message,
        "Let `forward` depend only on its inputs, parameters and buffers, not on a rank, a cache or a counter.",
        rank=found.culprit,
        file=found.read.file if found.read else "",
        line=found.read.line if found.read else 0,
    )
