"""Whether the initial states of a recurrent operator have as many rows as its input.

``aten::lstm`` and similar operators do not check it, and their kernels read past the end of states with fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.program.node_effects import schema_of

_STATES = ("hx", "hx_", "cx_")


def states_fit(node: torch.fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any], stand_in: int) -> bool:
    """Return whether states and input of ``node`` fit, for arguments at the batch ``stand_in``."""
    schema = schema_of(node)
    named = {declared.name for declared in schema.arguments} if schema is not None else set()
    if "input" not in named or not named & set(_STATES):
        return True
    given = {**dict(zip((declared.name for declared in schema.arguments), args, strict=False)), **kwargs}
    batched = bool(_batched(given["input"], stand_in))
    states = [state for name in _STATES for state in flatten(given.get(name))[0] if isinstance(state, torch.Tensor)]
    return all(_batched(state, stand_in) == ([state.dim() - 2] if batched else []) for state in states)


def _batched(tensor: torch.Tensor, stand_in: int) -> list[int]:
    return [dim for dim, size in enumerate(tensor.shape) if size and size % stand_in == 0]
