"""Each example input is a tensor of its own.

Why it matters:
    torch.export treats arguments that are the same object as one input. The program has a placeholder for
    each, reads only one of them, and is right on the example inputs; given two tensors, it uses one for both.
    (The stages copy each input, so that they export and compare the right program.)

Example:
    x = torch.ones(3, 2)
    export_ready_check(nn.Bilinear(2, 2, 1).eval(), (x, x))

Instead:
    x = torch.ones(3, 2)
    export_ready_check(nn.Bilinear(2, 2, 1).eval(), (x, x.clone()))

Severity:
    error: one tensor object is passed more than once.

Not reported:
    Views of one tensor.
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
                f"{first} and {few(others)} are the same tensor, which `torch.export` records as one input. "
                "The program then ignores the others.",
                "Pass a separate tensor for each argument, such as `x.clone()`.",
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
