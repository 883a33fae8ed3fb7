"""Every code that a finding can have: what a case's ``ignore`` may name."""

from __future__ import annotations

from pytest_exportready.checks._check import all_checks
from pytest_exportready.judge.stage_loop import UNREMEMBERED, UNTRAINED
from pytest_exportready.stages._budget import RULE as BUDGET
from pytest_exportready.stages._stage import all_stages


def known_codes() -> set[str]:
    """Every code that a finding can have."""
    from pytest_exportready.analysis.ranks.rules import RULES
    from pytest_exportready.diagnosis._diagnosis import UNCLASSIFIED, all_diagnoses
    from pytest_exportready.stages._source_lines import RULE as SOURCE

    rules = [SOURCE, BUDGET, *RULES, *(check.rule for check in all_checks().values())]
    rules += [rule for stage in all_stages().values() for rule in stage.rules]
    rules += [UNTRAINED, UNREMEMBERED, UNCLASSIFIED, *(d.rule for d in all_diagnoses().values())]
    return {rule.code for rule in rules}
