"""Findings about the state of the ranks: structure, parameters and modes; running statistics; other buffers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_exportready.analysis.ranks.fixes import BROADCAST, SYNCHRONIZE, fix_of
from pytest_exportready.analysis.ranks.mismatch import Mismatch
from pytest_exportready.analysis.ranks.rank_state import BUFFER
from pytest_exportready.analysis.ranks.rules import SAME_STATE
from pytest_exportready.analysis.ranks.running_statistics import Drift
from pytest_exportready.case.finding import Finding, Severity
from pytest_exportready.case.wording import counted, few

_ROUNDING = 4  # epsilons of the dtype
_EXPORT_FROM_RANK_0 = f"Export from rank 0, or run {BROADCAST} before exporting."


def forms_and_parameters(found: Sequence[Mismatch]) -> Iterator[Finding]:
    """Yield one finding for each kind of difference between the same ranks: a cause seldom affects one tensor only."""
    groups: dict[tuple[object, ...], list[Mismatch]] = {}
    for mismatch in found:
        difference = mismatch.difference
        sides = tuple(tuple(ranks) for _, ranks in difference.groups)
        groups.setdefault((difference.field, difference.kind, sides, _is_rounding(mismatch)), []).append(mismatch)
    for first, *more in groups.values():
        difference = first.difference
        message = f"{difference.subject} {first.summary}{_also(m.difference.where for m in more)}."
        if _is_rounding(first):
            message += " This is rounding, as between processors of different kinds."
        severity: Severity = "warning" if _is_rounding(first) else "error"
        yield SAME_STATE.report(severity, difference.where, message, fix_of(difference), rank=difference.culprit)


def _also(names: Iterable[str]) -> str:
    others = list(names)
    return f" (also {few(others)})" if others else ""


def _is_rounding(mismatch: Mismatch) -> bool:
    """Return whether values differ by a few units in the last place of the largest only."""
    return mismatch.worst <= _ROUNDING * mismatch.epsilon


def running_statistics(drifts: Mapping[str, Mapping[int, Drift]]) -> Iterator[Finding]:
    """Yield one finding for all norms: an error if one step of training does not explain them, otherwise a warning.

    Args:
        drifts: By norm and rank.
    """
    unexplained = {name: each for name, each in drifts.items() if not all(drift.explained for drift in each.values())}
    norms = unexplained or drifts
    if not norms:
        return
    name = max(norms, key=lambda name: max(drift.worst for drift in norms[name].values()))
    rank, drift = max(norms[name].items(), key=lambda item: (not item[1].explained, item[1].worst))
    batches = f", `num_batches_tracked` by {abs(drift.batches)}" if drift.batches else ""
    message = (
        f"Running statistics of {counted(len(norms), 'norm')} differ on rank {rank} from rank 0: `running_mean` by up "
        f"to {drift.worst:.2g} standard deviations, `running_var` by a factor of {math.exp(drift.spread):.3g}{batches}"
        f"{_also(other for other in norms if other != name)}."
    )
    where = f"{name}.running_mean"
    if unexplained:
        odd = [rank for rank, drift in norms[name].items() if drift.differs]
        message += " One training step does not explain this: they were not synchronized."
        culprit = odd[0] if len(odd) == 1 and len(norms[name]) > 2 else None
        yield SAME_STATE.error(where, message, SYNCHRONIZE, rank=culprit)
    else:
        message += " The last training step explains this; DistributedDataParallel uses those of rank 0."
        yield SAME_STATE.warning(where, message, _EXPORT_FROM_RANK_0)


def other_buffers(found: Sequence[Mismatch], *, outputs_differ: bool) -> Iterator[Finding]:
    for mismatch in found:
        difference = mismatch.difference
        message, fix = f"{difference.subject} {mismatch.summary}.", fix_of(difference)
        if outputs_differ:
            message += " The outputs for the same inputs differ, too."
            yield SAME_STATE.error(difference.where, message, fix, rank=difference.culprit)
        elif difference.kind == BUFFER:
            message += " What ships depends on the rank that exports."
            yield SAME_STATE.warning(difference.where, message, fix)
        else:
            yield SAME_STATE.note(difference.where, message)
