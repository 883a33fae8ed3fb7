"""Run the remedies of the checks, in order."""

from __future__ import annotations

from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Subject

_FIRST = "ddp_hooks_emptied"  # it removes the wrappers; the others look at the module inside


def apply_remedies(subject: Subject) -> list[str]:
    """Run the remedy of every check on ``subject`` in place; return what was changed, a sentence each.

    A remedy does not change what the model computes in eval mode.
    """
    checks = all_checks()
    order = sorted(checks, key=lambda name: (name != _FIRST, name))
    remedies = [remedy for name in order if (remedy := checks[name].remedy) is not None]
    return [action for remedy in remedies for action in remedy(subject)]
