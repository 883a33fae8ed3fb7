"""Call the users' hooks after an export. What they raise is told, and takes nothing with it."""

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
    "A hook of the user's, pytest_exportready_graph_created or pytest_exportready_export_failed, raised something.",
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
            message = f"the hook {name} raised {exception_text(error)}"
            yield RULE.warning("", message, "mend the hook; the verdict is not touched", file=file, line=line)


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
    """The function of a source line, with its classes and the functions around it; empty if it is in none."""
    try:
        tree: ast.AST = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ""
    around = [
        node
        for node in ast.walk(tree)  # from the outside in
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return ".".join(node.name for node in around) if around and not isinstance(around[-1], ast.ClassDef) else ""
