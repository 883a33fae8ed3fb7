"""The job summary: the verdict first, then causes and cases, cut by us before GitHub drops it whole."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.case.wording import and_more
from pytest_exportready.report.cause import Cause, causes
from pytest_exportready.report.github.markdown import code, fitted
from pytest_exportready.report.run import Run, TestResult

LIMIT = 900_000
"""Bytes. GitHub drops a step's summary of more than 1 MiB."""

CAUSES = 20
CASES = 50
MODELS = 3


def summary(run: Run) -> str:
    """What the run came to, as Markdown."""
    return fitted(list(_parts(run)), LIMIT, "_The rest did not fit: see the report among the artifacts._")


def _parts(run: Run) -> Iterator[str]:
    head, _, rest = run.verdict.partition(":")
    yield f"### {head}: {code(rest.strip(), 2_000)}"
    ran = [f"{code(key)} {code(value)}" for key, value in run.environment.items()]
    if ran:
        yield " \N{MIDDLE DOT} ".join(ran)
    hit = causes(run.results)
    if hit:
        yield "\n".join(_causes(hit))
    bad = [result for result in run.worst_first if result.outcome in ("failed", "infra", "missing")]
    if bad:
        yield "\n".join(_cases(run, bad))


def _causes(hit: list[tuple[Cause, tuple[TestResult, ...]]]) -> Iterator[str]:
    yield "| cause | cases | hits |\n|---|---|---|"
    for cause, results in hit[:CAUSES]:
        models = and_more([code(result.label, 60) for result in results[:MODELS]], len(results))
        yield f"| {code(str(cause))} | {len(results):,} | {models} |"
    if len(hit) > CAUSES:
        yield f"\n{len(hit) - CAUSES:,} more causes are in the report."


def _cases(run: Run, bad: list[TestResult]) -> Iterator[str]:
    yield "| case | went wrong at | why | fix |\n|---|---|---|---|"
    for result in bad[:CASES]:
        errors = result.readiness.errors if result.readiness else ()
        told = (
            f"{errors[0].place}: [{errors[0].code} {errors[0].name}] {errors[0].problem}" if errors else result.message
        )
        fix = errors[0].fix if errors else ""
        where = result.stage or result.outcome
        yield f"| {code(run.labels[result.nodeid], 100)} | {where} | {code(told)} | {code(fix)} |"
    if len(bad) > CASES:
        yield f"\n{len(bad) - CASES:,} more cases are in the report."
