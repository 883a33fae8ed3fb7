"""Flatten inputs and outputs into leaves.

torch has no public pytree module; only this file imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of ``tree`` and the spec to rebuild it."""
    leaves, spec = _pytree.tree_flatten(tree)
    return leaves, spec


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the leaves of ``tree`` that are tensors."""
    return [leaf for leaf in flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def unflatten(leaves: list[Any], spec: Any) -> Any:
    return _pytree.tree_unflatten(leaves, spec)


def children(node: Any) -> tuple[list[Any], Any]:
    """Return the parts of ``node``, one level down, and the spec to rebuild it; a leaf is its own only part."""
    parts, spec = _pytree.tree_flatten(node, is_leaf=lambda part: part is not node)
    return parts, spec


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Return ``(path, leaf)`` pairs; a path is written as in Python, such as ``[0]['ids']``."""
    pairs, _ = _pytree.tree_flatten_with_path(tree)
    return [(_pytree.keystr(path), leaf) for path, leaf in pairs]


def map_tensors(function: Callable[[torch.Tensor], Any], tree: Any) -> Any:
    return _pytree.tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)


def distinct(tree: Any) -> Any:
    """Return a copy of ``tree`` in which every tensor is a separate leaf tensor.

    torch.export merges inputs that are the same object, and a failed export can modify the tensors that it was given.
    """
    return map_tensors(lambda t: t.detach().clone().requires_grad_(t.requires_grad), tree)


def classes_of(spec: Any) -> set[type]:
    """Return the classes of the containers in a spec, other than builtins."""
    own = set() if spec.type is None or spec.type.__module__ == "builtins" else {spec.type}
    return own.union(*(classes_of(child) for child in spec.children())) if not spec.is_leaf() else own
