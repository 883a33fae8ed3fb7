"""The pytest hooks of this plugin.

``pytest_exportready_graph_created`` and ``pytest_exportready_export_failed`` are for a ``conftest.py`` that inspects
exports. pytest calls them only with ``--export-ready``, in the process (and rank) that judges the case. An
implementation declares only the arguments that it needs. An exception in it is reported as ER131 and does not change
the verdict. The other hooks are for plugins that run tests in several processes.
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
    """An operator call of the exported graph."""

    name: str  # of the node in the graph
    target: str  # the operator, such as ``aten.linear.default``
    module: str  # qualified name of the module that made the call, empty for the root
    stack: tuple[tuple[str, int], ...]  # source lines of the user as ``(file, line)``, outermost first
    source_functions: tuple[str, ...]  # functions and classes that were called there; empty in non-strict mode


def pytest_exportready_graph_created(
    case: str, mode: str, program: ExportedProgram, nodes: Sequence[GraphNode]
) -> None:
    """Inspect an exported program.

    Args:
        case: The node id of the case.
        mode: ``non-strict`` or ``strict``.
        program: The exported program. Do not modify it: the stages after the export use the same object.
        nodes: Its operator calls, in order.
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
    """Inspect a failed export.

    Args:
        case: The node id of the case.
        mode: ``non-strict`` or ``strict``.
        error: The exception of torch.export, with its cause.
        module: Qualified name of the module whose call failed, empty for the root or if it is unknown.
        stack: Source lines of the user as ``(file, line)``, outermost first.
        target: The operator that was traced, such as ``aten.add.Tensor``; empty if it is unknown.
        source_functions: The function that contains each line of ``stack``, such as ``Net.forward``.
    """


@pytest.hookspec(firstresult=True)
def pytest_exportready_rank() -> Any:
    """Return the rank that this process runs as; None outside of ranks.

    The object has ``size``, the number of ranks that run the current test, ``device``, the device of this rank such as
    ``cuda:0``, and ``leave()``, which leaves the default process group so that no other rank waits for this one.
    """


def pytest_exportready_ranks_needed(session: pytest.Session) -> None:
    """Prepare to run tests in ranks that got their marker after the collection."""


@pytest.hookspec(firstresult=True)
def pytest_exportready_gpus() -> tuple[int, str] | None:
    """Return the number of GPUs that tests can lease on this machine, and why it is 0; without starting CUDA."""


@pytest.hookspec(firstresult=True)
def pytest_exportready_marker_problem(item: pytest.Item) -> tuple[str, str] | None:
    """Return what is wrong with a marker of your plugin on an export case, and the fix; the case then fails with both.

    The problem names the marker and the argument. None: the marker is correct.
    """
