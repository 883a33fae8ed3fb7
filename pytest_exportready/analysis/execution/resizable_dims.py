"""Which dimensions of the example inputs the module itself takes at other sizes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.input_variants import resized
from pytest_exportready.analysis.execution.pytree import flatten

Place = tuple[int, int]  # leaf and dimension

_GROWN = ((1, 1), (2, 2), (4, 0))  # what a size is made: times the first, plus the second


def varying(module: nn.Module, call: Call) -> list[list[Place]]:
    """Dimensions that the eager module, in eval mode, takes at another size: alone, with all of the same size that are
    in the same place of other inputs, or with one of another input that is a multiple of it; each group in proportion.
    """
    reference = EagerReference(module)
    sizes = {
        (leaf, dim): size
        for leaf, value in enumerate(flatten(call)[0])
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_quantized
        for dim, size in enumerate(value.shape)
        if size
    }
    found: list[list[Place]] = []
    for group in _groups(sizes):
        known = {place for other in found for place in other}
        if not known.issuperset(group) and _accepts(reference, call, sizes, group):
            found.append(group)
    return found


def _groups(sizes: dict[Place, int]) -> Iterator[list[Place]]:
    """What to change together, the likeliest first."""
    for place in sizes:
        yield [place]
    for size, dim in dict.fromkeys((size, dim) for (_, dim), size in sizes.items()):
        yield [place for place, other in sizes.items() if (other, place[1]) == (size, dim)]
    for size in dict.fromkeys(sizes.values()):
        yield [place for place, other in sizes.items() if other == size]
    for (leaf, dim), size in sizes.items():
        for (other, at), larger in sizes.items():
            if leaf != other and larger > size > 1 and larger % size == 0:
                yield [(leaf, dim), (other, at)]


def _accepts(reference: EagerReference, call: Call, sizes: dict[Place, int], group: list[Place]) -> bool:
    smallest = min(sizes[place] for place in group)
    for times, plus in _GROWN:
        try:
            reference.output(resized(call, {at: (times * smallest + plus) * sizes[at] // smallest for at in group}))
        except Exception:
            continue
        return True
    return False
