"""The job summary: verdict, causes and cases, within the limit of GitHub."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.case.wording import and_more
from pytest_exportready.report.cause import FailureCause, causes
from pytest_exportready.report.markdown import code, fitted
from pytest_exportready.report.run import Run, TestResult

LIMIT = 900_000
"""Bytes. GitHub drops the summary of a step with more than 1 MiB."""

CAUSES = 20
CASES = 50
MODELS = 3


def summary(run: Run) -> str:
    """Return the summary of a run as Markdown."""
    return fitted(list(_parts(run)), LIMIT, "_The rest does not fit. See the report in the artifacts._")


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


def _causes(hit: list[tuple[FailureCause, tuple[TestResult, ...]]]) -> Iterator[str]:
    yield "| cause | cases | affects |\n|---|---|---|"
    for cause, results in hit[:CAUSES]:
        models = and_more([code(result.label, 60) for result in results[:MODELS]], len(results))
        yield f"| {code(str(cause))} | {len(results):,} | {models} |"
    if len(hit) > CAUSES:
        yield f"\n{len(hit) - CAUSES:,} more causes are in the report."


def _cases(run: Run, bad: list[TestResult]) -> Iterator[str]:
    yield "| case | failed stage | problem | fix |\n|---|---|---|---|"
    for result in bad[:CASES]:
        errors = result.readiness.errors if result.readiness else ()
        problem, fix = result.message, ""
        if errors:
            problem = f"{errors[0].place}: [{errors[0].code} {errors[0].name}] {errors[0].problem}"
            fix = errors[0].fix
        where = result.stage or result.outcome
        yield f"| {code(run.labels[result.nodeid], 100)} | {where} | {code(problem)} | {code(fix)} |"
    if len(bad) > CASES:
        yield f"\n{len(bad) - CASES:,} more cases are in the report."
