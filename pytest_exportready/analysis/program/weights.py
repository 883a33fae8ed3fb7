"""One fingerprint for all weights of a module or a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.tensor_values import view_identity
from pytest_exportready.analysis.program.canonical_form import digest
from pytest_exportready.analysis.program.tensor_hash import tensor_digest


def weights_fingerprint(holder: nn.Module | ExportedProgram | Mapping[str, Any]) -> str:
    """Hash of every tensor in the state dict of ``holder``: names, dtypes, shapes, values, and which are tied.

    Equal for equal weights, whatever their strides and device; any other value, name or tie gives another. Reads each
    tensor once where it lies (XXH3; 10 GB/s on one core); a tensor without values counts by dtype and shape. Entries
    that are not tensors (extra state) count by type alone.
    """
    state = holder if isinstance(holder, Mapping) else holder.state_dict
    entries = state if isinstance(state, Mapping) else state()
    first: dict[object, str] = {}
    lines: list[tuple[str, str]] = []
    for name in sorted(entries):
        value = entries[name]
        if not isinstance(value, torch.Tensor):
            lines.append((name, type(value).__name__))
            continue
        place = first.setdefault(view_identity(value) or name, name)
        lines.append((name, f"is {place}" if place != name else tensor_digest(value)))
    return digest(*lines)
