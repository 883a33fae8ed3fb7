"""Every code that a finding can have: what a case's ``ignore`` may name."""

from __future__ import annotations

from pytest_exportready.checks import all_checks
from pytest_exportready.judge.cached_stages import NOT_CACHED
from pytest_exportready.stages import all_stages


def known_codes() -> set[str]:
    """Every code that a finding can have."""
    from pytest_exportready.analysis.ranks.rules import RULES
    from pytest_exportready.diagnosis import UNCLASSIFIED, all_diagnoses
    from pytest_exportready.stages._source_lines import RULE as SOURCE

    rules = [SOURCE, *RULES, *(check.rule for check in all_checks().values())]
    rules += [rule for stage in all_stages().values() for rule in stage.rules]
    rules += [NOT_CACHED, UNCLASSIFIED, *(d.rule for d in all_diagnoses().values())]
    return {rule.code for rule in rules}
