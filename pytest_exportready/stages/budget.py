"""The export stays within its budget: seconds of torch.export, MiB of the saved program, nodes of the graph."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.nodes import on_cpu
from pytest_exportready.case.facts import BYTES, NODES, SECONDS
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._stage import SkipStage, Stage

RULE = Rule(
    "ER680",
    "within_budget",
    """The export stays within the budget of the case.

    `seconds` is the wall time of torch.export (the first export in a process is the slowest), `mib` the size
    of the file that torch.export.save writes, `nodes` the number of nodes in the graph, `gpu_mib` the memory that the
    program needs on a GPU for the example inputs: its weights, and the peak of what it allocates.

    Why it matters:
        An unrolled loop or weights that are stored twice make the program large and the export slow.

    Example:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),), budget={"nodes": 1})

    Instead:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(2, 4),), budget={"nodes": 100})

    Severity:
        error: a limit is exceeded.
    """,
)
_MEASURED_AT = {"seconds": ("export", SECONDS, 1), "mib": ("reload", BYTES, 2**20), "nodes": ("export", NODES, 1)}
_MESSAGES = {
    "seconds": "torch.export took {} s; the budget is {} s.",
    "mib": "The saved program has {} MiB; the budget is {} MiB.",
    "nodes": "The graph has {} nodes; the budget is {}.",
    "gpu_mib": "The program needs {} MiB of GPU memory; the budget is {} MiB.",
}
_FIXES = {
    "seconds": "Export a smaller module, or unroll fewer loops; else raise `budget=`.",
    "mib": "Look for weights that are stored twice, as constants or in float64; else raise `budget=`.",
    "nodes": "Look for a Python loop over a size, which is unrolled; else raise `budget=`.",
    "gpu_mib": "Use a smaller dtype or smaller example inputs; else raise `budget=`.",
}


def run(trial: Trial) -> Iterator[Observation]:
    missing = []
    for kind, limit in trial.options.budget.items():
        stage, measured = _measured(trial, kind)
        if measured is None:
            missing.append(kind)
            continue
        figure = round(measured, 3)
        yield {kind: figure}
        if figure > limit:
            yield RULE.error(stage, _MESSAGES[kind].format(f"{figure:.12g}", f"{limit:.12g}"), _FIXES[kind])
    if missing:
        raise SkipStage(f"not measured: {', '.join(missing)}")


def _measured(trial: Trial, kind: str) -> tuple[str, float | None]:
    """Return the stage at which a figure is measured, and the figure; None without one."""
    if kind == "gpu_mib":
        on_gpu = trial.program is not None and not on_cpu(trial.program)
        return "parity", trial.running.gpu_bytes(trial.call) / 2**20 if on_gpu else None
    stage, fact, unit = _MEASURED_AT[kind]
    facts = trial.results[stage].facts if stage in trial.results else {}
    return stage, facts[fact] / unit if fact in facts else None


STAGE = Stage(
    run,
    rules=(RULE,),
    follows=("export", "reload"),
    always=True,
    asked=lambda trial: bool(trial.options.budget),
    opt_in="budget",
)
