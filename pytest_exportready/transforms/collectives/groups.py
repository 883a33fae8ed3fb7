"""Process groups by names that mean the same in every process, and in every saved program.

A program keeps of a process group its name. torch numbers groups in the order in which a process makes them, so that a
program saved under ``"1"`` runs on whatever group happens to be the second one when it is loaded, and gives wrong
results without a word. ``name_group`` gives a group a name of your own, and its size is part of what the program keeps:
loaded where that name stands for nothing, or for a group of another size, the program refuses to run.
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
_named: dict[str, tuple[str, int]] = {}  # the name torch knows it by, and its size


class GroupNotNamed(ExplainedError, LookupError):
    """A name stands for no process group in this process."""


def name_group(name: str, group: dist.ProcessGroup | None = None) -> None:
    """From now on ``name`` is ``group`` (by default all ranks) in this process. To be called in each rank of the group,
    before the export and again wherever the program is loaded; a name given twice stands for the last group.

    Raises ValueError for a name with a slash, for a process that is not in the group, or without torch.distributed.
    """
    if not name or "/" in name:
        raise ValueError(f"group name {name!r}: any text without a slash. Fix: name_group('tensor_parallel', group)")
    if not dist.is_initialized():
        raise ValueError("torch.distributed has no process group here. Fix: torch.distributed.init_process_group(...)")
    given = group or dist.group.WORLD
    size = dist.get_world_size(given)
    if given is None or size < 1:
        raise ValueError(f"this process is not in the group to be named {name!r}. Fix: name it on its ranks only")
    if name in _named:
        unregister_group(_named.pop(name)[0])
    alias = f"{PREFIX}/{name}/{size}"
    register_group(alias, given)
    _named[name] = alias, size


def named_group(name: str) -> tuple[str, int]:
    """What a program keeps of the group called ``name``, and how many ranks it has. Raises GroupNotNamed."""
    if name not in _named:
        known = f" (there are: {', '.join(sorted(_named))})" if _named else ""
        raise GroupNotNamed(f"no process group is named {name!r} here{known}", f"name_group({name!r}, group)")
    return _named[name]


def groups_of(program: ExportedProgram) -> dict[str, int]:
    """The names of process groups in ``program``, each with how many of its collectives use it."""
    counts: dict[str, int] = {}
    for _, _, kept in group_arguments(program):
        counts[kept] = counts.get(kept, 0) + 1
    return counts


def bind_groups(program: ExportedProgram, names: Mapping[str, str]) -> ExportedProgram:
    """``program``, changed in place, with the groups that it keeps under the keys of ``names`` replaced by the groups
    named by the values: ``bind_groups(program, {"0": "data_parallel"})`` mends one that was exported with torch's own
    numbers. The new groups must have the sizes of the old ones, which all_gather and reduce_scatter keep besides.

    Raises KeyError for a key that the program does not use, ValueError for another size, GroupNotNamed.
    """
    unknown = set(names) - set(groups_of(program))
    if unknown:
        has = ", ".join(sorted(groups_of(program))) or "none"
        raise KeyError(f"the program has no group {', '.join(sorted(unknown))}: it has {has}")
    for node, place, kept in list(group_arguments(program)):
        if kept in names:
            alias, size = named_group(names[kept])
            stated = _argument(node, "group_size")
            if stated is not None and stated != size:
                raise ValueError(f"{node.target} is for {stated} ranks, and the group {names[kept]!r} has {size}")
            if isinstance(place, int):
                node.update_arg(place, alias)
            else:
                node.update_kwarg(place, alias)
    program.graph_module.recompile()
    return program


def group_arguments(program: ExportedProgram) -> Iterator[tuple[Any, int | str, str]]:
    """Each node with a group name, where among its arguments it is, and the name."""
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
