"""What an export may cost: seconds of torch.export, MiB of the saved program, nodes of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.readiness import StageResult

RULE = Rule(
    "ER680",
    "within_budget",
    "What a case's budget allows: seconds that torch.export itself took (wall time; the first export of a process is "
    "the slowest), MiB of the file that torch.export.save wrote, nodes of the exported graph.",
)
_SPENT_AT = {"seconds": ("export", "seconds", 1), "mib": ("reload", "bytes", 2**20), "nodes": ("export", "nodes", 1)}
_WORDS = {"seconds": "torch.export took {} s", "mib": "the saved program has {} MiB", "nodes": "the graph has {} nodes"}
_FIXES = {
    "seconds": "export a smaller module or unroll fewer loops",
    "mib": "look for weights stored twice, as constants or in float64",
    "nodes": "look for a Python loop over a size, which is unrolled",
}


def over_budget(budget: Mapping[str, float], stages: Sequence[StageResult], spent: dict[str, Any]) -> Iterator[Finding]:
    """A finding for each limit of ``budget`` that the figures of ``stages`` exceed; ``spent`` gets the figures.

    What was not measured, because its stage did not run, is no figure.
    """
    facts = {stage.name: stage.facts for stage in stages}
    for kind, limit in budget.items():
        stage, fact, unit = _SPENT_AT[kind]
        if fact not in facts.get(stage, {}):
            continue
        figure = spent[kind] = round(facts[stage][fact] / unit, 3)
        if figure > limit:
            raised = f'or raise it: budget={{"{kind}": {figure:g}}}' if kind != "seconds" else "or raise the budget"
            yield RULE.error(
                stage,
                f"{_WORDS[kind].format(f'{figure:.12g}')}, the budget is {limit:.12g}",
                f"{_FIXES[kind]}, {raised}",
            )
