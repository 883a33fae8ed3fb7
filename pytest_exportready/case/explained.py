"""Errors that hold what is wrong and how to fix it as two fields, and the one sentence that is made of them."""

from __future__ import annotations


class ExplainedError(Exception):
    """Base of errors that a user can act on.

    Args:
        problem: What is wrong, without a period at its end.
        fix: What to do about it, imperative; empty when there is no advice.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem, fix)
        self.problem, self.fix = problem, fix

    def __str__(self) -> str:
        return with_fix(self.problem, self.fix)


def with_fix(problem: str, fix: str) -> str:
    """Return ``<problem>. Fix: <fix>``, without a second period and without the fix when there is none."""
    if not fix:
        return problem
    stop = "" if problem.endswith((".", "!", "?", "\u2026")) else "."
    return f"{problem}{stop} Fix: {fix}"
