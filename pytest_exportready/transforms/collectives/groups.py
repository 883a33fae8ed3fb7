"""Process groups with names that mean the same in every process and in every saved program.

A program keeps the name of a process group. torch numbers groups in the order in which a process creates them, so a
program saved with group ``"1"`` silently runs on whichever group is the second when it is loaded. ``name_group`` gives
a group a name of its own, which includes its size: a program does not run where that name is unknown, or names a group
of another size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch.distributed as dist
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.node_effects import schema_of
from pytest_exportready.analysis.program.nodes import calls
from pytest_exportready.analysis.torch_internals.groups import register_group, unregister_group
from pytest_exportready.case.explained import ExplainedError

PREFIX = "exportready"
_named: dict[str, tuple[str, int]] = {}  # by name: the name in torch, and the size


class GroupNotNamed(ExplainedError, LookupError):
    """No process group has this name in this process."""


def name_group(name: str, group: dist.ProcessGroup | None = None) -> None:
    """Name ``group`` (by default all ranks) in this process.

    Call it in each rank of the group, before the export and again where the program is loaded. A name that is used
    twice names the last group.

    Raises:
        ValueError: The name contains a slash, the process is not in the group, or torch.distributed is not initialized.
    """
    if not name or "/" in name:
        raise ValueError(
            f"group name {name!r} is empty or contains a slash. Fix: Write `name_group('tensor_parallel', group)`."
        )
    if not dist.is_initialized():
        raise ValueError("torch.distributed is not initialized. Fix: Call `torch.distributed.init_process_group(...)`.")
    given = group or dist.group.WORLD
    size = dist.get_world_size(given)
    if given is None or size < 1:
        raise ValueError(
            f"this process is not in the group {name!r}. Fix: Call `name_group` on ranks of the group only."
        )
    if name in _named:
        unregister_group(_named.pop(name)[0])
    alias = f"{PREFIX}/{name}/{size}"
    register_group(alias, given)
    _named[name] = alias, size


def named_group(name: str) -> tuple[str, int]:
    """Return the name that a program keeps for the group ``name``, and its size. Raise GroupNotNamed."""
    if name not in _named:
        known = f" (known: {', '.join(sorted(_named))})" if _named else ""
        raise GroupNotNamed(f"no process group is named {name!r}{known}", f"Call `name_group({name!r}, group)`.")
    return _named[name]


def groups_of(program: ExportedProgram) -> dict[str, int]:
    """Return the names of process groups in ``program``, each with the number of collectives that use it."""
    counts: dict[str, int] = {}
    for _, _, kept in group_arguments(program):
        counts[kept] = counts.get(kept, 0) + 1
    return counts


def bind_groups(program: ExportedProgram, names: Mapping[str, str]) -> ExportedProgram:
    """Replace process groups of ``program``, in place: ``bind_groups(program, {"0": "data_parallel"})``.

    Args:
        names: New names, from ``name_group``, by the present ones.

    Raises:
        KeyError: The program does not use a group.
        ValueError: A new group has another size; all_gather and reduce_scatter keep the size.
        GroupNotNamed: A new name is unknown.
    """
    unknown = set(names) - set(groups_of(program))
    if unknown:
        has = ", ".join(sorted(groups_of(program))) or "none"
        raise KeyError(f"the program does not use group {', '.join(sorted(unknown))}; it uses {has}")
    for node, place, kept in list(group_arguments(program)):
        if kept in names:
            alias, size = named_group(names[kept])
            stated = _argument(node, "group_size")
            if stated is not None and stated != size:
                raise ValueError(f"{node.target} expects {stated} ranks, but the group {names[kept]!r} has {size}")
            if isinstance(place, int):
                node.update_arg(place, alias)
            else:
                node.update_kwarg(place, alias)
    program.graph_module.recompile()
    return program


def group_arguments(program: ExportedProgram) -> Iterator[tuple[Any, int | str, str]]:
    """Yield each node with a group name, the position or name of that argument, and the group name."""
    for node in calls(program):
        schema = schema_of(node)
        for position, declared in enumerate(schema.arguments if schema is not None else ()):
            if declared.name == "group_name":
                place: int | str = position if position < len(node.args) else declared.name
                value = node.args[position] if position < len(node.args) else node.kwargs.get(declared.name)
                if isinstance(value, str):
                    yield node, place, value


def _argument(node: Any, name: str) -> Any:
    schema = schema_of(node)
    for position, declared in enumerate(schema.arguments):
        if declared.name == name:
            return node.args[position] if position < len(node.args) else node.kwargs.get(name)
    return None
