"""Do the ranks of a training agree? What they hold first, then what they compute; the findings are the same on
every rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakSet

import torch.distributed as dist
from torch import Tensor, nn

from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.ranks.exchange import AbsentRanks
from pytest_exportready.analysis.ranks.gather import Table
from pytest_exportready.analysis.ranks.mismatch import Mismatch, mismatches
from pytest_exportready.analysis.ranks.output_comparison import Apart, NotCompared, outputs_apart
from pytest_exportready.analysis.ranks.rank_state import BUFFER, PASSING_BUFFER, SHARD, STATISTIC, VALUES, Described
from pytest_exportready.analysis.ranks.rules import ALIKE
from pytest_exportready.analysis.ranks.running_statistics import Drift, drifts
from pytest_exportready.analysis.ranks.state_findings import forms_and_parameters, other_buffers, running_statistics
from pytest_exportready.analysis.torch_internals.modules import is_norm
from pytest_exportready.analysis.torch_internals.tensors import is_dtensor
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.facts import OUTPUTS, RANKS, TENSORS
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import few

_HELD = ("structure", "parameters", "buffers", "modes")
_PATIENCE = 120.0  # seconds for each step between ranks that have met: a large model is hashed and run
_ALONE = 2.0  # seconds to wait for ranks that did not come the last time

_missed: WeakSet[dist.ProcessGroup] = WeakSet()  # default groups whose ranks did not come the last time


class NotTogether(Exception):
    """The other ranks do not take part; the message says which, and what to do. No fault: often rank 0 alone
    exports."""


def several_ranks() -> bool:
    """Whether this process is one of several that train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def disagreements(case: ExportCase, tolerance: Tolerance, seconds: float) -> Iterator[Finding | dict[str, Any]]:
    """Yield findings about state or outputs that differ between the ranks, and facts about what was compared.

    Every rank of the default group calls this and gets the same. The module is left as it was.

    Args:
        seconds: how long to wait for the other ranks to begin; at most 2 s if they did not come the last time.

    Raises:
        NotTogether: the other ranks do not take part.
    """
    world = dist.group.WORLD
    assert world is not None
    try:
        Table("export_ready_check", None, min(seconds, _ALONE) if world in _missed else seconds).gather("here", b"")
    except AbsentRanks as absent:
        _missed.add(world)
        raise NotTogether(
            f"{absent}. Call export_ready_check on every rank to have them compared; with skip_ddp_validation=True it "
            "does not wait for them"
        ) from absent
    _missed.discard(world)
    try:
        yield from _compared(case, tolerance, Table("export_ready_check", None, _PATIENCE))
    except AbsentRanks as absent:
        raise NotTogether(f"{absent}, after they had begun") from absent


def _compared(case: ExportCase, tolerance: Tolerance, table: Table) -> Iterator[Finding | dict[str, Any]]:
    model = unwrap(case.model)[0]
    described = Described(model, _HELD)
    found = mismatches(described, table)
    yield {RANKS: len(table.ranks), TENSORS: len(described.tensors)}
    statistics = [m for m in found if m.difference.field == VALUES and m.difference.kind == STATISTIC]
    buffers = [m for m in found if m.difference.field == VALUES and m.difference.kind in (BUFFER, PASSING_BUFFER)]
    drifting, of_rank0 = _drifting(model, statistics, table)
    findings = [
        *forms_and_parameters([m for m in found if m not in statistics and m not in buffers]),
        *running_statistics(drifting),
    ]
    yield from findings
    apart = None
    try:
        if any(finding.severity == "error" for finding in findings):
            raise NotCompared("what the ranks hold differs")
        if _sharded(described):
            raise NotCompared("the parameters are sharded")
        apart = outputs_apart(case, of_rank0, tolerance, table)
        yield {OUTPUTS: "differ" if apart else "agree"}
    except NotCompared as why:
        yield {OUTPUTS: f"not compared: {why}"}
    yield from other_buffers(buffers, decisive=apart is not None)
    if apart and not buffers:
        yield _unlike(apart)


def _drifting(
    model: nn.Module, statistics: Sequence[Mismatch], table: Table
) -> tuple[dict[str, dict[int, Drift]], dict[str, Tensor]]:
    modules = dict(model.named_modules(remove_duplicate=False))
    names = dict.fromkeys(mismatch.difference.where.rpartition(".")[0] for mismatch in statistics)
    norms = {name: modules[name] for name in names}
    return drifts({name: norm for name, norm in norms.items() if is_norm(norm)}, table) if norms else ({}, {})


def _sharded(described: Described) -> bool:
    shards = any(fields.get("kind") == SHARD for fields in described.facts.values())
    return shards or any(is_dtensor(tensor) for tensor in described.tensors.values())


def _unlike(apart: Apart) -> Finding:
    cause = f"; not alike on the ranks: {few(apart.attributes, 5)}" if apart.attributes else ""
    asked = apart.asked
    cause += f"; forward {asked.words}" if asked else ""
    return ALIKE.error(
        apart.attributes[0] if len(apart.attributes) == 1 else apart.where,
        f"on the same inputs the ranks compute unlike outputs: {apart.told}{cause}",
        "let forward depend on inputs, parameters and buffers only, on no rank, cache or counter",
        rank=apart.culprit,
        file=asked.file if asked else "",
        line=asked.line if asked else 0,
    )
