"""Control flow or a size depends on tensor values, which are not known while the graph is made.

Both ways of a branch would have to be kept. Bad: ``if x.sum() > 0: y = a else: y = b``. Good:
``y = torch.where(x.sum() > 0, a, b)``, ``torch.cond``, or for a size ``torch._check(n >= 0)``. Where the branches
write, draw and print nothing, and inputs are found that take both, the fix is a patch of the file, proved on these.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from pytest_exportready.analysis.source.value_dependent_lines import Suspect
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._draft import elsewhere, met_on_the_way
from pytest_exportready.diagnosis._rewriting import proved_patch

RULE = Rule("ER401", "no_data_dependent_branch", __doc__ or "")

_SIGNS = re.compile(
    r"GuardOnDataDependentSymNode|[Dd]ata-?\s?dependent (?:branching|expression|jump|operator|assertion)"
    r"|Could not guard on data-dependent|Could not extract specialized integer"
    r"|DataDependentOutputException|dynamic control flow is not supported|PendingUnbackedSymbolNotFound"
    r"|calling \.item\(\) on a Tensor|unhashable type: non-nested Sym"
    r"|must be tuple of ints, ?but got|data-dependent control flow"
    r"|sort whose key comparison is not|sort with non-constant key"
)
_NUMBER = re.compile(r"unhashable type|must be tuple of ints|Could not extract specialized integer|\.item\(\)")
_STATEMENTS: dict[type[ast.AST], str] = {
    ast.Assert: "torch._assert_async(condition, message), which the program keeps; torch._check(condition) for sizes",
    ast.While: "torch._higher_order_ops.while_loop(condition, body, (x,)), or a fixed number of steps and torch.where",
}
_APPLY = "apply the patch: on inputs that take both branches it gives the same outputs, in eager mode and exported"
_OPERATOR = re.compile(r"DataDependentOutputException: (aten\.\w+)|Data dependent operator[^\0]*?(aten\.\w+)")


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    there = next((s for s in failure.suspects if (s.file, s.line) == failure.place), None)
    what, fix = _told(failure, there)
    patch = proved_patch(failure)
    return failure.finding(RULE, "", what, _APPLY if patch else fix, patch=patch)


def _told(failure: Failure, there: Suspect | None) -> tuple[str, str]:
    """What is wrong and what mends it, from the statement in the source or else from what torch says."""
    of = f": {there.words}" if there else ""
    operator = failure.says(_OPERATOR)
    if operator and "local_scalar" not in operator[0]:
        what = f"{operator[1] or operator[2]} gives a Python answer that only tensor values tell, and forward uses it"
        return what + of, "compare with torch operators: torch.where((a == b).all(), y, z)"
    statement = _for_statement(there) if there else ""
    if failure.says(_NUMBER) and not statement:
        what = "forward takes a Python number (a size, a count, an index) from tensor values"
        fix = "keep it a tensor (index_select, a mask as a weight), make it an input, or torch._check its range"
        return what + of, fix
    others = elsewhere(met_on_the_way(failure, "DATA_DEPENDENT_ERROR"), *failure.place)
    what = f"forward branches on tensor values, or takes a Python number from them{of}{others}"
    fix = "use torch.where or torch.cond for the branch, or a mask as a weight instead of selecting rows"
    return what, statement or fix


def _for_statement(suspect: Suspect) -> str:
    """The fix for what asks at this line, where there is one of its own."""
    for node in ast.walk(suspect.source.tree):
        test: Any = getattr(node, "test", None)
        if type(node) in _STATEMENTS and test.lineno <= suspect.line <= test.end_lineno:
            return _STATEMENTS[type(node)]
        if isinstance(node, ast.Call) and node.lineno == suspect.line and ast.unparse(node.func) in ("min", "max"):
            return f"torch.{ast.unparse(node.func)}imum(a, b)"
    return ""


DIAGNOSIS = Diagnosis(RULE, explain)
