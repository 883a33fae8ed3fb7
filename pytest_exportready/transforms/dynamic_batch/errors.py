"""The error of make_batch_dynamic, and its fixes."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.case.explained import ExplainedError


class NotBatchDynamic(ExplainedError):
    """The program cannot be made dynamic in its batch. It was not changed.

    Attributes:
        node, operator: Where in the graph; both empty if no single node is the cause.
        file, line: Where in the source; the line is 0 if unknown.
    """

    def __init__(self, problem: str, fix: str, node: torch.fx.Node | None = None) -> None:
        self.node = "" if node is None else node.name
        self.operator = "" if node is None else operator_name(node)
        self.file, self.line = ("", 0) if node is None else source(node)
        place = f"{self.file}:{self.line}, " if self.file else ""
        module = f" of {owner(node)}" if node is not None and owner(node) else ""
        where = f"{place}node {self.node} ({self.operator}){module}: " if node is not None else ""
        super().__init__(f"{where}{problem}", fix)


FROM_SOURCE = "Export the module itself with `dynamic_shapes={...: {0: Dim('batch', min=1)}}`."
BRANCHES = "Run it where the source is, or pass `without_source=True` if `forward` does not branch on the batch size."
