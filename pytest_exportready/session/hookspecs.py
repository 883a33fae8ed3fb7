"""The pytest hooks of this plugin.

``pytest_exportready_graph_created`` and ``pytest_exportready_export_failed`` are for a ``conftest.py`` that looks at
what was exported. They are called in a run with ``--export-ready`` only, in the process (and rank) that judges the
case. Give a function of the same name the arguments that it needs, by name. What it raises is reported as ER131, and
changes no verdict. The other two are for a plugin that runs tests in several processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class GraphNode:
    """An operator call of the exported graph.

    name: in the graph. target: the operator, such as ``aten.linear.default``. module: qualified name of the module that
    made the call, empty for the root. stack: the user's frames as ``(file, line)``, outermost first. source_functions:
    functions and classes of the user's call it stems from, outermost first; empty in non-strict mode.
    """

    name: str
    target: str
    module: str
    stack: tuple[tuple[str, int], ...]
    source_functions: tuple[str, ...]


def pytest_exportready_graph_created(
    case: str, mode: str, program: ExportedProgram, nodes: Sequence[GraphNode]
) -> None:
    """An export succeeded.

    case: node id. mode: ``non-strict`` or ``strict``. program: the stages after it run this very program; leave it as
    it is. nodes: its operator calls, in order.
    """


def pytest_exportready_export_failed(
    case: str,
    mode: str,
    error: BaseException,
    module: str,
    stack: Sequence[tuple[str, int]],
    target: str,
    source_functions: Sequence[str],
) -> None:
    """An export failed.

    error: what torch.export raised, with its cause. module: qualified name of the module that it came through, empty
    for the root or when it is unknown. stack: the user's frames as ``(file, line)``, outermost first. source_functions:
    the function that each of them is in, such as ``Net.forward``. target: the operator that was being traced, such as
    ``aten.add.Tensor``; empty where no operator failed, and where strict export does not tell.
    """


@pytest.hookspec(firstresult=True)
def pytest_exportready_rank() -> Any:
    """Return the rank that this process is; None outside of ranks.

    The object has ``size``, the number of ranks that run the current test, and ``leave()``, which leaves the default
    process group so that no other rank waits for this one.
    """


@pytest.hookspec(firstresult=True)
def pytest_exportready_marker_problem(item: pytest.Item) -> tuple[str, str] | None:
    """Return what is wrong with a marker of your plugin on an export case, which then fails with it.

    A pair of the problem, which names the marker and the argument, and the fix. None: nothing is wrong.
    """
