"""Findings about what the ranks hold: structure, parameters and modes; running statistics; other buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_exportready.analysis.ranks.comparison import PRESENCE
from pytest_exportready.analysis.ranks.fixes import KEEP_SYNCHRONISED, ON_PURPOSE, SYNCHRONISE, fix_of
from pytest_exportready.analysis.ranks.mismatch import Mismatch
from pytest_exportready.analysis.ranks.rank_state import BUFFER, CLASS, SHAPE
from pytest_exportready.analysis.ranks.rules import AGREE
from pytest_exportready.analysis.ranks.running_statistics import Drift
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import counted, few

_ROUNDING = 4  # epsilons of the dtype


def forms_and_parameters(found: Sequence[Mismatch]) -> Iterator[Finding]:
    """One finding for each kind of difference between the same ranks: a cause seldom touches one tensor alone."""
    groups: dict[tuple[object, ...], list[Mismatch]] = {}
    for mismatch in found:
        difference = mismatch.difference
        sides = tuple(tuple(ranks) for _, ranks in difference.groups)
        groups.setdefault((difference.field, difference.kind, sides, _rounded(mismatch)), []).append(mismatch)
    for first, *more in groups.values():
        difference = first.difference
        told = f"{first.told()}{f'; also {few(m.difference.where for m in more)}' if more else ''}"
        if _rounded(first):
            tell, told = AGREE.warning, f"{told}. That is rounding, as between processors of different kinds."
        else:
            tell = AGREE.error
        fix = fix_of(difference) + (ON_PURPOSE if difference.field in (PRESENCE, CLASS, SHAPE) else "")
        yield tell(difference.where, told, fix, rank=difference.culprit)


def _rounded(mismatch: Mismatch) -> bool:
    """Whether values are apart by rounding only: a few units in the last place of the largest."""
    return mismatch.worst <= _ROUNDING * mismatch.epsilon


def running_statistics(drifts: Mapping[str, Mapping[int, Drift]]) -> Iterator[Finding]:
    """By norm and rank. One finding for all norms: an error for those that one step of training does not explain,
    else a warning."""
    apart = {name: each for name, each in drifts.items() if not all(drift.explained for drift in each.values())}
    norms = apart or drifts
    if not norms:
        return
    name = max(norms, key=lambda name: max(drift.worst for drift in norms[name].values()))
    rank, drift = max(norms[name].items(), key=lambda item: (not item[1].explained, item[1].worst))
    batches = f", num_batches_tracked by {abs(drift.batches)}" if drift.batches else ""
    others = [other for other in norms if other != name]
    told = (
        f"running_mean and running_var of {counted(len(norms), 'norm')} differ: on rank {rank} from rank 0's by up to "
        f"{drift.worst:.2g} standard deviations and a factor of {math.exp(drift.spread):.3g}{batches}"
        f"{f' (also {few(others)})' if others else ''}"
    )
    where = f"{name}.running_mean"
    if apart:
        odd = [rank for rank, drift in norms[name].items() if drift.differs]
        yield AGREE.error(
            where,
            f"{told}. One step of training does not explain it: they were not synchronised.",
            f"{KEEP_SYNCHRONISED}, or before the export {SYNCHRONISE}",
            rank=odd[0] if len(odd) == 1 and len(norms[name]) > 2 else None,
        )
    else:
        yield AGREE.warning(
            where,
            f"{told}. The last step of training explains it; rank 0's are what DistributedDataParallel hands on.",
            f"export from rank 0, or before the export {SYNCHRONISE}",
        )


def other_buffers(found: Sequence[Mismatch], *, decisive: bool) -> Iterator[Finding]:
    """decisive: the outputs of the ranks differ, too."""
    for mismatch in found:
        difference = mismatch.difference
        told = f"{difference.kind}: {mismatch.told()}"
        if decisive:
            message = f"{told}; so do the outputs on the same inputs"
            yield AGREE.error(difference.where, message, fix_of(difference), rank=difference.culprit)
        elif difference.kind == BUFFER:
            yield AGREE.warning(
                difference.where, f"{told}. What ships depends on the rank that exports.", fix_of(difference)
            )
        else:
            yield AGREE.note(difference.where, told)
