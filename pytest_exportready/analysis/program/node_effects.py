"""Effects of nodes: in-place writes, random numbers, collectives. Pure nodes have no order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

_PLAIN = ("aten", "prims", "prim")  # their schemas declare all writes
_STATISTICS = ("running_mean", "running_var")  # written in training, although the schema does not say so


class Memory:
    """Which values share memory, and what was last written there.

    ``version`` distinguishes reads of a value before and after a write.
    """

    def __init__(self) -> None:
        self._root: dict[Node, Node] = {}
        self._version: dict[Node, str] = {}

    def version(self, node: Node) -> str:
        """Return the digest of the last node that wrote into the memory of ``node``; empty before the first."""
        return self._version.get(self._of(node), "")

    def run(self, node: Node, digest: str) -> None:
        """Record that the result of ``node`` may share memory with arguments, and that it wrote into some."""
        for source in shares(node):
            self._root[self._of(node)] = self._of(source)
        for target in writes(node):
            self._version[self._of(target)] = digest

    def _of(self, node: Node) -> Node:
        while node in self._root:
            node = self._root[node]
        return node


def is_ordered(node: Node) -> bool:
    """Return whether the order of ``node`` among its kind matters: random numbers, collectives, unknown effects."""
    target: Any = node.target
    if schema_of(node) is None:
        return hasattr(target, "namespace")  # cond, autocast and others, with any such node inside
    seeded = torch.Tag.nondeterministic_seeded in target.tags and not _is_inactive(node)
    written = target.namespace not in _PLAIN and schema_of(node).is_mutable
    return seeded or written or "c10d" in target.namespace


def is_checked(node: Node) -> bool:
    """Return whether it is an assertion, which has no result but must be kept."""
    return "assert" in str(node.target) or "sym_constrain" in str(node.target)


def writes(node: Node) -> Iterator[Node]:
    """Yield the arguments that ``node`` writes into."""
    for declared, value in _bound(node):
        written = declared.alias_info is not None and declared.alias_info.is_write
        if written or (declared.name in _STATISTICS and _trains(node)):
            yield from _nodes(value)


def shares(node: Node) -> Iterator[Node]:
    """Yield the arguments whose memory the result of ``node`` may share."""
    schema = schema_of(node)
    if schema is None:  # getitem, and operators on graphs: any argument
        yield from node.all_input_nodes
    elif any(result.alias_info is not None for result in schema.returns):
        for declared, value in _bound(node):
            if declared.alias_info is not None:
                yield from _nodes(value)


def schema_of(node: Node) -> Any:
    """Return the schema of the operator of ``node``; None for Python functions and operators on graphs."""
    return getattr(node.target, "_schema", None)


def _bound(node: Node) -> Iterator[tuple[Any, Any]]:
    schema = schema_of(node)
    for position, declared in enumerate(schema.arguments if schema is not None else ()):
        if position < len(node.args):
            yield declared, node.args[position]
        elif declared.name in node.kwargs:
            yield declared, node.kwargs[declared.name]


def _trains(node: Node) -> bool:
    return any(declared.name in ("training", "train", "use_input_stats") and value for declared, value in _bound(node))


def _is_inactive(node: Node) -> bool:
    """Return whether a random operator such as dropout has training switched off."""
    flags = [value for declared, value in _bound(node) if declared.name in ("training", "train")]
    return bool(flags) and not any(flags)


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _nodes(inner)
