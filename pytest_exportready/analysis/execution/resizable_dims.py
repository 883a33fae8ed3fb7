"""Find the dimensions of the example inputs that the eager module accepts at other sizes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.input_variants import resized
from pytest_exportready.analysis.execution.pytree import flatten

InputDim = tuple[int, int]
"""Position of a leaf among the flat inputs, and one of its dimensions."""

_GROWN = ((1, 1), (2, 2), (4, 0))  # a size is tried at: size * first + second


def resizable_dims(module: nn.Module, call: Call) -> list[list[InputDim]]:
    """Return groups of dimensions that the eager module, in eval mode, accepts at another size.

    A dimension is resized alone, with all that have the same size, or with one of another input that is a multiple of
    it; the dimensions of a group keep their proportion.
    """
    reference = EagerReference(module)
    sizes = {
        (leaf, dim): size
        for leaf, value in enumerate(flatten(call)[0])
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_quantized
        for dim, size in enumerate(value.shape)
        if size
    }
    found: list[list[InputDim]] = []
    for group in _groups(sizes):
        known = {place for other in found for place in other}
        if not known.issuperset(group) and _accepts(reference, call, sizes, group):
            found.append(group)
    return found


def _groups(sizes: dict[InputDim, int]) -> Iterator[list[InputDim]]:
    """Yield the dimensions to resize together, the likeliest first."""
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


def _accepts(reference: EagerReference, call: Call, sizes: dict[InputDim, int], group: list[InputDim]) -> bool:
    smallest = min(sizes[place] for place in group)
    for times, plus in _GROWN:
        try:
            reference.output(resized(call, {at: (times * smallest + plus) * sizes[at] // smallest for at in group}))
        except Exception:
            continue
        return True
    return False
