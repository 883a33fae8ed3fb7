"""`forward` does not branch on tensor values, and does not take Python numbers from them.

Why it matters:
    Tensors have no values while torch.export traces, so it cannot choose a branch or a size.

Example:
    class Net(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return torch.where(x.sum() > 0, x, -x)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails. If the branches have no side effects and inputs are found that take both, the finding has
        a patch that was verified on these inputs.

Not reported:
    Branches on sizes, dtypes and configuration, which are known while tracing.
"""

from __future__ import annotations

import ast
from typing import Any

from pytest_exportready.analysis.source.value_dependent_lines import Suspect
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._draft import draft_problems, other_places
from pytest_exportready.diagnosis._rewriting import proved_patch

RULE = Rule("ER401", "no_data_dependent_branch", __doc__ or "")

_SIGNS = (
    r"GuardOnDataDependentSymNode|[Dd]ata-?\s?dependent (?:branching|expression|jump|operator|assertion)"
    r"|Could not guard on data-dependent|Could not extract specialized integer"
    r"|DataDependentOutputException|dynamic control flow is not supported|PendingUnbackedSymbolNotFound"
    r"|calling \.item\(\) on a Tensor|unhashable type: non-nested Sym"
    r"|must be tuple of ints, ?but got|data-dependent control flow"
    r"|sort whose key comparison is not|sort with non-constant key"
)
_NUMBER = r"unhashable type|must be tuple of ints|Could not extract specialized integer|\.item\(\)"
_OPERATOR = r"DataDependentOutputException: (aten\.\w+)|Data dependent operator[^\0]*?(aten\.\w+)"
_BY_STATEMENT: dict[type[ast.AST], str] = {
    ast.Assert: "Use `torch._assert_async(condition, message)`, which the program keeps, or for sizes"
    " `torch._check(condition)`.",
    ast.While: "Use `torch._higher_order_ops.while_loop(condition, body, (x,))`, or a fixed number of steps and"
    " `torch.where`.",
}
_FIX_PATCH = "Apply the patch: it gives the same outputs on inputs that take both branches, in eager mode and exported."
_FIX_BRANCH = "Use `torch.where` or `torch.cond` for the branch, or a mask as a weight instead of selecting rows."
_FIX_NUMBER = (
    "Keep it a tensor (`index_select`, a mask as a weight), make it an input, or bound its range with `torch._check`."
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    suspect = next((s for s in failure.suspects if (s.file, s.line) == failure.place), None)
    message, fix = _problem(failure, suspect)
    patch = proved_patch(failure)
    return failure.finding(RULE, message, _FIX_PATCH if patch else fix, patch=patch)


def _problem(failure: Failure, suspect: Suspect | None) -> tuple[str, str]:
    """Return message and fix, from the statement in the source or else from what torch says."""
    operator = failure.says(_OPERATOR)
    if operator and "local_scalar" not in operator[0]:
        message = f"`{operator[1] or operator[2]}` returns a Python value that depends on tensor values."
        return message, "Compare with torch operators: `torch.where((a == b).all(), y, z)`."
    fix = _fix_of_statement(suspect) if suspect else ""
    if failure.says(_NUMBER) and not fix:
        message = "`forward` takes a Python number (a size, a count, an index) from tensor values"
        return f"{suspect.words if suspect else message}.", _FIX_NUMBER
    message = "`forward` branches on tensor values, or takes a Python number from them"
    others = other_places(draft_problems(failure, "DATA_DEPENDENT_ERROR"), *failure.place)
    return f"{suspect.words if suspect else message}.{others}", fix or _FIX_BRANCH


def _fix_of_statement(suspect: Suspect) -> str:
    """Return the fix for the statement at this line; empty if it has none of its own."""
    for node in ast.walk(suspect.source.tree):
        test: Any = getattr(node, "test", None)
        if type(node) in _BY_STATEMENT and test.lineno <= suspect.line <= test.end_lineno:
            return _BY_STATEMENT[type(node)]
        if isinstance(node, ast.Call) and node.lineno == suspect.line and ast.unparse(node.func) in ("min", "max"):
            return f"Use `torch.{ast.unparse(node.func)}imum(a, b)`."
    return ""


DIAGNOSIS = Diagnosis(RULE, explain)
