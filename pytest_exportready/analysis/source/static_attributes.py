"""Attributes and entries of known objects, read without running user code."""

from __future__ import annotations

import ast
from typing import Any

from torch import nn

from pytest_exportready.analysis.source.abstract_values import PYTHON, UNKNOWN, Kind, Known, is_tensor, known


def attribute_of(owner: Any, name: str) -> Kind:
    """Return the kind of an attribute; unknown for a property, which would run user code."""
    if isinstance(owner, nn.Module):
        if name == "training":
            return known(False)
        tables = (vars(owner), owner._parameters, owner._buffers, owner._modules)
        for table in tables:
            if name in table:
                return known(table[name])
    found = next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), None)
    if isinstance(found, property):
        return UNKNOWN
    try:
        return known(getattr(owner, name))
    except Exception:
        return UNKNOWN


def entry_of(owner: Any, index: Any) -> Kind:
    """Return the kind of ``owner[index]``; unknown except for plain containers."""
    if type(owner) not in (list, tuple, dict) and not isinstance(owner, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
        return UNKNOWN
    try:
        return known(owner[index])
    except (LookupError, TypeError):
        return UNKNOWN


def identity(first: Kind, second: Kind, same: bool) -> Kind:
    """Return the kind of ``first is second``, or of ``is not`` if not ``same``."""
    if isinstance(first, Known) and isinstance(second, Known):
        return known((first.value is second.value) == same)
    if is_tensor(first) or is_tensor(second):
        other = second if is_tensor(first) else first
        if isinstance(other, Known) and other.value is None:
            return known(not same)
    return PYTHON


def source_text(node: ast.AST) -> str:
    """Return the node as source in one line of at most 50 characters."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 50 else f"{text[:47]}..."
