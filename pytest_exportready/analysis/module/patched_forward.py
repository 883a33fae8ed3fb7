"""Modules whose ``forward`` is not the one that their class was written with."""

from __future__ import annotations

from torch import nn


def replaced_forwards(model: nn.Module) -> list[str]:
    """``layer.forward (replaced on the instance)`` and ``forward (decorated with torch.autocast)``, for each module."""
    found = []
    for name, module in model.named_modules():
        how = _replaced(module)
        if how:
            found.append(f"{name}.forward ({how})".removeprefix("."))
    return found


def _replaced(module: nn.Module) -> str:
    if "forward" in vars(module):
        return "replaced on the instance"
    code = getattr(type(module).forward, "__code__", None)
    return "decorated with torch.autocast" if getattr(code, "co_name", "") == "decorate_autocast" else ""
