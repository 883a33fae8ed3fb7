"""Find modules whose ``forward`` is not the one that their class defines."""

from __future__ import annotations

from torch import nn


def patched_forwards(model: nn.Module) -> list[str]:
    """Return ``layer.forward (replaced on the instance)`` or ``forward (decorated with torch.autocast)`` for each."""
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
