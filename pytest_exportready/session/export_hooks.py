"""Call the hooks of the user after an export, and report exceptions that they raise."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.program.nodes import calls, owner
from pytest_exportready.analysis.source.user_frames import chain, module_at, stack_places, user_frames, user_place
from pytest_exportready.analysis.torch_internals.programs import failed_operator
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.session.hookspecs import GraphNode

RULE = Rule(
    "ER131",
    "plugin_hook_runs",
    """The hooks `pytest_exportready_graph_created` and `pytest_exportready_export_failed` of the user do not raise.

    Why it matters:
        What the hook inspects was not inspected. The verdict on the case does not depend on it.

    Severity:
        warning: a hook raised an exception, or called `pytest.skip` or `pytest.fail`.
    """,
)


class ExportHooks:
    """The hooks for the exports of one case."""

    def __init__(self, hook: Any, case: str) -> None:
        self.hook, self.case = hook, case

    def __call__(self, trial: Trial) -> Iterator[Finding]:
        if trial.error is not None:
            yield from self._call("pytest_exportready_export_failed", trial, _failed)
        elif trial.program is not None:
            yield from self._call("pytest_exportready_graph_created", trial, _created)

    def _call(self, name: str, trial: Trial, describe: Any) -> Iterator[Finding]:
        caller = getattr(self.hook, name)
        if not caller.get_hookimpls():
            return
        try:
            caller(case=self.case, mode=trial.mode, **describe(trial))
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            file, line = user_place(error)
            message = f"The hook `{name}` raised {exception_text(error)}."
            yield RULE.warning("", message, "Correct the hook.", file=file, line=line)


def _created(trial: Trial) -> dict[str, Any]:
    program = trial.program
    assert program is not None
    nodes = tuple(
        GraphNode(
            node.name,
            str(node.target),
            owner(node),
            tuple(stack_places(node.meta.get("stack_trace"))),
            tuple(getattr(called, "__name__", str(called)) for _, called in node.meta.get("source_fn_stack") or ()),
        )
        for node in calls(program)
    )
    return {"program": program, "nodes": nodes}


def _failed(trial: Trial) -> dict[str, Any]:
    error = trial.error
    assert error is not None
    stack = user_frames(error)
    return {
        "error": error,
        "module": module_at(error, trial.reference.module) or "",
        "stack": stack,
        "target": next(filter(None, map(failed_operator, reversed(chain(error)))), ""),
        "source_functions": [_function_at(file, line) for file, line in stack],
    }


def _function_at(file: str, line: int) -> str:
    """Return the qualified name of the function that contains a source line; empty if none does."""
    try:
        tree: ast.AST = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ""
    enclosing = [
        node
        for node in ast.walk(tree)  # outermost first
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return (
        ".".join(node.name for node in enclosing) if enclosing and not isinstance(enclosing[-1], ast.ClassDef) else ""
    )
