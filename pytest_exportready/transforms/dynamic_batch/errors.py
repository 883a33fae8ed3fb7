"""What is raised where a program cannot be proved right for other batch sizes."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.case.explained import ExplainedError


class NotBatchDynamic(ExplainedError):
    """The program could not be made dynamic in its batch, and was left as it is.

    node, operator: where in the graph; both empty when it is no single node's fault. file, line: the user's source
    (line is 1-based, 0 for none).
    """

    def __init__(self, problem: str, fix: str, node: torch.fx.Node | None = None) -> None:
        self.node = "" if node is None else node.name
        self.operator = "" if node is None else operator_name(node)
        self.file, self.line = ("", 0) if node is None else source(node)
        place = f"{self.file}:{self.line}, " if self.file else ""
        module = f" of {owner(node)}" if node is not None and owner(node) else ""
        where = f"{place}node {self.node} ({self.operator}){module}: " if node is not None else ""
        super().__init__(f"{where}{problem}", fix)


FROM_SOURCE = "export the module itself with dynamic_shapes={...: {0: Dim('batch', min=1)}}"
BRANCHES = "adapt it where its source is, or pass without_source=True if forward takes no branch by the number of rows"
