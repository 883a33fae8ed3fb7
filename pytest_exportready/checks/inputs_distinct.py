"""No tensor is passed twice in the example inputs.

``torch.export`` takes arguments that are the same object for one input. It succeeds, the program has a placeholder for
each, reads one of them only, and is right on the example; given two tensors it computes with that one for both. (The
stages here copy the inputs one by one, so that the program they prove is the right one.)

Bad:  ``torch.export.export(model, (x, x))``
Good: ``torch.export.export(model, (x, x.clone()))``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER150", "inputs_distinct")


def inspect(subject: Subject) -> Iterator[Finding]:
    places: dict[int, list[str]] = {}
    for whole, given in (("args", subject.args), ("kwargs", dict(subject.kwargs))):
        for path, leaf in named_leaves(given):
            if isinstance(leaf, torch.Tensor):
                places.setdefault(id(leaf), []).append(f"{whole}{path}")
    for first, *others in places.values():
        if others:
            yield RULE.error(
                others[0],
                f"{first} and {few(others)} are the same tensor: torch.export takes them for one input, and a program "
                "exported so reads one of them for each, whatever it is given",
                "pass a tensor of its own for each argument: x.clone()",
            )


def _subject(*args: object, **kwargs: object) -> Subject:
    return Subject(nn.Bilinear(2, 2, 1).eval(), args, kwargs)


_X = torch.ones(3, 2)

CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _subject(_X, _X.clone()), lambda: _subject(_X, _X[:]), lambda: _subject(2, 2, None, None)),
    bad=(lambda: _subject(_X, _X), lambda: _subject(_X, input2=_X), lambda: _subject([_X, {"b": (_X,)}])),
)
