"""What an export may cost: seconds of torch.export, MiB of the saved program, nodes of its graph."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.facts import BYTES, NODES, SECONDS
from pytest_exportready.case.finding import Rule
from pytest_exportready.stages._stage import SkipStage, Stage

RULE = Rule(
    "ER680",
    "within_budget",
    "What a case's budget allows: seconds that torch.export itself took (wall time; the first export of a process is "
    "the slowest), MiB of the file that torch.export.save wrote, nodes of the exported graph.",
)
_SPENT_AT = {"seconds": ("export", SECONDS, 1), "mib": ("reload", BYTES, 2**20), "nodes": ("export", NODES, 1)}
_WORDS = {"seconds": "torch.export took {} s", "mib": "the saved program has {} MiB", "nodes": "the graph has {} nodes"}
_FIXES = {
    "seconds": "export a smaller module or unroll fewer loops",
    "mib": "look for weights stored twice, as constants or in float64",
    "nodes": "look for a Python loop over a size, which is unrolled",
}


def run(trial: Trial) -> Iterator[Observation]:
    missing = []
    for kind, limit in trial.options.budget.items():
        stage, fact, unit = _SPENT_AT[kind]
        if stage not in trial.results or fact not in trial.results[stage].facts:
            missing.append(kind)
            continue
        figure = round(trial.results[stage].facts[fact] / unit, 3)
        yield {kind: figure}
        if figure > limit:
            raised = f'or raise it: budget={{"{kind}": {figure:g}}}' if kind != "seconds" else "or raise the budget"
            yield RULE.error(
                stage,
                f"{_WORDS[kind].format(f'{figure:.12g}')}, the budget is {limit:.12g}",
                f"{_FIXES[kind]}, {raised}",
            )
    if missing:
        raise SkipStage(f"not measured: {', '.join(missing)}")


STAGE = Stage(
    run,
    rules=(RULE,),
    follows=("export", "reload"),
    always=True,
    asked=lambda trial: bool(trial.options.budget),
    opt_in="budget",
)
