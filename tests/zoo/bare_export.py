"""What a bare script shows: torch.export and one comparison, without this project."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

RUNS = 3
Shown = Literal["refused", "crashes", "differs", "agrees", "static"]


def of(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any = None) -> Shown:
    """``model`` as it is, against itself in eval mode, some times over for what is random. From eval mode results agree
    when they are close, from training when they are equal. static: the program has no symbol for a size.
    """
    tolerance = {"rtol": 0.0, "atol": 0.0} if model.training else {"rtol": 1e-4, "atol": 1e-4}
    model = copy.deepcopy(model)
    try:
        program = torch.export.export(model, args, copy.deepcopy(kwargs), dynamic_shapes=shapes)
    except Exception:
        return "refused"
    if shapes is not None:
        return "agrees" if program.range_constraints else "static"
    with torch.no_grad():
        expected = model.eval()(*args, **copy.deepcopy(kwargs))
        try:
            for _ in range(RUNS):
                given = program.module()(*args, **copy.deepcopy(kwargs))
                torch.testing.assert_close(pytree.tree_leaves(given), pytree.tree_leaves(expected), **tolerance)
        except AssertionError:
            return "differs"
        except Exception:
            return "crashes"
    return "agrees"


def automatic(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dim.AUTO for the first dimension of every tensor, of inputs that are all positional or all named."""
    of_each = pytree.tree_map(
        lambda x: {0: Dim.AUTO} if isinstance(x, torch.Tensor) and x.dim() else None, (args, kwargs)
    )
    return of_each[0] or of_each[1]
