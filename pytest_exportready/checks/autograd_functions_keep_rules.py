"""The ``torch.autograd.Function`` classes that forward uses keep the rules of a backward.

Read in their source: no ``.data``, no ``.detach()`` of saved tensors, no numpy; tensors go through
``ctx.save_for_backward`` and not into attributes of ``ctx``; an input that forward writes is named in
``ctx.mark_dirty``. A warning where the program will be trained on (``trainable=True``), for there the function has to
become an operator whose backward is traced; else only worth knowing: a program for inference has no backward.

Bad:  ``ctx.x = x`` in ``forward``, ``2 * ctx.x.data * grad`` in ``backward``
Good: ``ctx.save_for_backward(x)``, ``(x,) = ctx.saved_tensors`` and ``2 * x * grad``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.source.autograd_functions import autograd_functions
from pytest_exportready.analysis.source.autograd_rules import breaches
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER160", "autograd_functions_keep_rules")


def inspect(subject: Subject) -> Iterator[Finding]:
    tell = RULE.warning if subject.trainable else RULE.note
    for function, module in autograd_functions(subject.model).items():
        found = breaches(function)
        if found:
            file, line, _ = found[0]
            yield tell(
                f"{function.__name__} in {module}" if module else function.__name__,
                few(f"{words} (line {at})" for _, at, words in found),
                "(x,) = ctx.saved_tensors after ctx.save_for_backward(x), torch operators only, ctx.mark_dirty(x) for "
                "an input that is written",
                file=file,
                line=line,
            )


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = 2 * ctx.x.data * grad
        return result


class _Saved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, power: float) -> Tensor:
        ctx.power = power
        ctx.save_for_backward(x)
        return x**power

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.power * x ** (ctx.power - 1) * grad, None


class _Keeping(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return cast(Any, _Kept).apply(x)


class _Saving(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return cast(Any, _Saved).apply(x, 2.0)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: Subject(_Saving(), trainable=True),
        lambda: Subject(nn.Linear(2, 2), trainable=True),
        lambda: Subject(_Keeping()),
    ),
    bad=(lambda: Subject(_Keeping(), trainable=True), lambda: Subject(nn.Sequential(_Keeping()), trainable=True)),
)
